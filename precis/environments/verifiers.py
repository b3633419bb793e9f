"""An environment of verifiers 0.4, played in a process of verifiers' own virtual environment.

verifiers can't be installed beside SkyPilot, so a child process (`verifiers_child`) lists its tasks
and plays the rollouts; the two exchange lines of JSON over a socket. A rollout that fails there is
Unscored; a late one is cancelled, and a child that does not confirm within 4 s is killed. The
rollouts of a dead child are Unscored, the next one starts another child, and three deaths without a
score in between end the step.
"""

import asyncio
import itertools
import json
import shutil
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from precis.environments.clock import clock_stopped
from precis.environments.programs import end, harmless, output_of, start, tail, without_secrets
from precis.environments.protocol import AgentModel, check_scenarios
from precis.environments.ruler import AgentEnvironment
from precis.errors import ConfigError, RolloutError, without_controls
from precis.records.rollout import Scenario, Score, Split, Unscored
from precis.settings.environment import VerifiersSettings

_CHILD = Path(__file__).with_name("verifiers_child.py")
_DESCRIBE_S = 600.0
"""A taskset may load a data set."""
_START_S = 120.0
_ANSWER_S = 4.0
"""The time for a child to confirm a cancellation; the recorder waits a little longer."""
_DEATHS_MAX = 3
_LINE_MAX = 64 * 1024 * 1024
_SHOWN = 500
_INSTALL = "Run `make install-verifiers`, or name another Python in `environment.python`."


class VerifiersEnvironment(AgentEnvironment):
    """An environment of verifiers, by the child's description."""

    def __init__(self, settings: VerifiersSettings, described: Mapping[str, Any]) -> None:
        versions = {
            "kind": "verifiers",
            "verifiers": described["version"],
            "environment": described["digest"],
        }
        scenarios: dict[Split, list[Scenario]] = {}
        for split, given in described["splits"].items():
            scenarios[split] = list(map(Scenario.of, given))
        remedy = "Lower `environment.val_size`, or name other tasks in `environment.held_out`."
        check_scenarios(f"verifiers' environment {settings.id}", scenarios, remedy)
        super().__init__(versions, scenarios, settings=settings)
        self._settings = settings
        self._children = _Children(settings)  # shared with copies of this

    async def rollout(self, model: AgentModel, scenario: Scenario) -> Score | Unscored:
        said = await self._children.play(
            {
                "scenario": scenario.id,
                "address": model.inference_base_url,
                "key": model.inference_api_key,
                "model": model.get_inference_name(),
            }
        )
        if "cause" in said:
            return Unscored(said["cause"], _excerpt(said["detail"]))
        least = self._settings.success_min
        success = None if least is None else said["reward"] >= least
        return Score(said["reward"], success, said["metrics"])

    async def open(self) -> None:
        await self._children.running()

    async def close(self) -> None:
        await self._children.stop()


class _Children:
    """Starts the child, and replaces one that has died."""

    def __init__(self, settings: VerifiersSettings) -> None:
        self._settings = settings
        self._child: _Child | None = None
        self._starting = asyncio.Lock()
        self._deaths = 0

    async def play(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the outcome of a rollout: a reward and metrics, or a cause with its detail."""
        with clock_stopped():  # a start has its own deadline
            child = await self.running()
        said = await child.play(asked)
        if not said:
            return {"cause": "environment_died", "detail": child.ended}
        self._deaths = 0
        return said

    async def running(self) -> "_Child":
        """Return the running child; start one if there is none."""
        async with self._starting:
            if self._child and self._child.ended:
                self._deaths += 1
                if self._deaths >= _DEATHS_MAX:
                    id, python = self._settings.id, self._settings.python
                    raise RolloutError(
                        f"The process of verifiers' environment {id} died {self._deaths} times "
                        f"and scored nothing in between. {self._child.ended}",
                        f"See that the environment works under {python} alone, by `vf-eval {id}`.",
                    )
                self._child = None
            if self._child is None:
                self._child = await _Child.started(self._settings)
            return self._child

    async def stop(self) -> None:
        if self._child:
            await self._child.stop()
            self._child = None


class _Child:
    """The child process; `ended` is why it ended, empty while it is up."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        assert process.stdout and process.stderr
        self.ended = ""
        self._process = process
        self._reader = reader
        self._writer = writer
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Mapping[str, Any]]] = {}
        self._output = asyncio.create_task(tail(process.stdout))
        self._errors = asyncio.create_task(tail(process.stderr))
        self._reading: asyncio.Task[None] | None = None

    @classmethod
    async def started(cls, settings: VerifiersSettings) -> "_Child":
        """Start a child, and return it once it is ready. Raises ConfigError if it can't be
        started."""
        ours, its = socket.socketpair()
        try:
            command = [*_command(settings, "serve"), str(its.fileno())]
            process = await start(command, harmless(settings.variables), (its.fileno(),))
        finally:
            its.close()
        reader, writer = await asyncio.open_connection(sock=ours, limit=_LINE_MAX)
        child = cls(process, reader, writer)
        problem = f"It was not ready within {_START_S:g} s."
        try:
            with suppress(TimeoutError):
                said = await asyncio.wait_for(child._read_line(), _START_S)
                if "ready" in said:
                    child._reading = asyncio.create_task(child._read())
                    return child
                problem = said["problem"]
        finally:
            if child._reading is None:
                await child._end(problem)
        raise ConfigError(f"verifiers' environment {settings.id} can't be started: {child.ended}")

    async def play(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the outcome of a rollout; empty if the child has `ended`."""
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._send({"number": number, **asked})
            return await asyncio.shield(answer)
        except asyncio.CancelledError:
            self._send({"cancel": number})
            await asyncio.wait({answer}, timeout=_ANSWER_S)
            if not answer.done():
                await self._end(
                    f"It was stuck for {_ANSWER_S:g} s, so that nothing could be cancelled: the "
                    "environment blocks the event loop."
                )
            raise
        finally:
            del self._waiting[number]

    async def stop(self) -> None:
        """Have it stop its resources, and end it."""
        if self._reading is None or self.ended:
            return
        self._reading.cancel()
        self._writer.close()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), _ANSWER_S)
        await self._end("It was stopped.")

    def _send(self, asked: Mapping[str, Any]) -> None:
        if not self.ended:
            self._writer.write(json.dumps(asked).encode() + b"\n")

    async def _read(self) -> None:
        while True:
            said = await self._read_line()
            if "problem" in said:
                await self._end(said["problem"])
                return
            waiting = self._waiting.get(said["number"])
            if waiting and not waiting.done():
                waiting.set_result(said)

    async def _read_line(self) -> Any:
        """Return its next message; a `problem` if it has ended."""
        line = b""
        with suppress(OSError):  # it was killed while it answered
            line = await self._reader.readline()
        return json.loads(line) if line.endswith(b"\n") else {"problem": "It ended."}

    async def _end(self, why: str) -> None:
        """End it with its children, and abandon its rollouts."""
        if self.ended:
            return
        self.ended = why = _excerpt(why)
        self._writer.close()
        await end(self._process)
        # A process that outlived its supervisor may hold its standard error open.
        await asyncio.wait({self._errors}, timeout=_ANSWER_S)
        errors = ""
        if self._errors.done():
            printed = without_controls(self._errors.result().decode(errors="replace"))
            errors = without_secrets(printed).strip()
        else:
            self._errors.cancel()
            self._process._transport.close()  # type: ignore[attr-defined]  # nobody reads it again
        if errors:
            self.ended = f"{why} It said last: {' '.join(errors[-_SHOWN:].split())}"
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_result({})


def load_verifiers(settings: VerifiersSettings) -> VerifiersEnvironment:
    """Return the environment of an installed package. Raises ConfigError if it can't be played."""
    python, id = settings.python, settings.id
    if shutil.which(python) is None:
        raise ConfigError(
            f"The Python of verifiers' environments, {python}, is not there, or can't be run.",
            _INSTALL,
        )
    output, problem = output_of(
        _command(settings, "describe"), _DESCRIBE_S, harmless(settings.variables)
    )
    if problem:
        raise ConfigError(f"The description of verifiers' environment {id} {problem}.")
    try:
        # A task's NaN is no JSON: nothing is shown for it.
        said = json.loads(output, parse_constant=lambda _: None)
    except ValueError as error:
        shown = output[:80]
        raise ConfigError(f"{python} describes the environment {id} as {shown!r}.") from error
    detail = _excerpt(str(said.get("detail")))
    problems = {
        "missing": (f"{python} can't import verifiers: {detail}.", _INSTALL),
        "version": (f"{python} has verifiers {detail}, and 0.4 is needed.", _INSTALL),
        "unknown": (
            f"{python} has no environment of verifiers {id!r}: {detail.rstrip('.')}.",
            f"Install its package there: `uv pip install --python {python} …`.",
        ),
        "unusable": (f"verifiers' environment {id} can't be used: {detail}", ""),
    }
    if "problem" in said:
        raise ConfigError(*problems[said["problem"]])
    return VerifiersEnvironment(settings, said)


def _excerpt(text: str) -> str:
    """Return the beginning and the end of a long text in a line, with keys hidden."""
    shown = " ".join(without_secrets(without_controls(text)).split())
    if len(shown) > _SHOWN:
        shown = f"{shown[: _SHOWN // 2]} … {shown[-_SHOWN // 2 :]}"
    return shown


def _command(settings: VerifiersSettings, what: str) -> list[str]:
    shown = settings.model_dump_json(include={"id", "config", "held_out", "train_size", "val_size"})
    # -P: verifiers must not find the modules in this file's folder.
    return [settings.python, "-P", str(_CHILD), what, shown]
