"""The training flow and its services as processes that are forked, for tests that kill hundreds.

A server process imports everything once (Python's own forkserver; `warmed` says what else it
does) and forks each process from there, so that a life of the pipeline takes two seconds instead
of ten. Apart from how they are started they are what users run: the flow against a real Prefect
server, the trainer and the judge behind HTTP, each a process that SIGKILL can hit.
"""

import asyncio
import io
import json
import multiprocessing
import os
import secrets
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Client, Connection, Listener
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import openai.resources  # noqa: F401  (otherwise imported by the first request of each life)
from prefect import flow
from prefect.flow_runs import apause_flow_run

import precis.llm.silence
import precis.rehearsal.judges.serve
import precis.trainer.client
import precis.trainer.server
import tasks.training
from flows.train import run_training
from precis.config import TrainConfig
from precis.errors import PrecisError
from precis.processes.child import TOKEN_VARIABLE, ChildService, Launch, is_running
from tasks.parameters import named, takes_settings
from tasks.states import says_why_it_stops
from tests.services.crash_points import Kills, arm, sign_in
from tests.services.patience import Patience, until

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload([__name__, "tests.services.warmed"])


@dataclass(frozen=True)
class Desk:
    """Where a flow asks for its services to be forked: of its own accord it would start, and
    fill, another server. All that is forked has this environment."""

    address: str
    environment: Mapping[str, str]


@contextmanager
def forking(environment: Mapping[str, str]) -> Iterator[Desk]:
    """Start the server that forks, if it is not there; it ends with this process."""
    before = dict(os.environ)
    _become(environment)
    try:
        probe = CONTEXT.Process(target=os.getpid)
        probe.start()
        probe.join()
    finally:
        _become(before)
    with Listener(family="AF_UNIX") as listener:
        desk = Desk(str(listener.address), environment)
        threading.Thread(target=_fork_on_request, args=(listener, desk), daemon=True).start()
        yield desk


def trained(
    config: Mapping[str, Any], environment: Mapping[str, str], folder: Path
) -> tuple[int, str]:
    """Run the training flow to its end; its exit status, and what it printed into the folder."""
    log = folder / "flow.log"
    with forking(environment) as desk:
        status = end_of(start_flow(config, Kills(folder), log, desk), log)
    return status, log.read_text()


def start_flow(config: Mapping[str, Any], kills: Kills, log: Path, desk: Desk) -> ForkServerProcess:
    """Start a life of the training flow."""
    process = CONTEXT.Process(target=_flow, args=(json.dumps(config), kills, str(log), desk))
    process.start()
    return process


def end_of(flow: ForkServerProcess, log: Path) -> int:
    """Its exit status, once it has ended; one that logs nothing for too long is killed."""
    patience = Patience("a word of the flow, or its end", lambda: log.read_text()[-3000:])
    seen = -1
    try:
        while flow.exitcode is None:
            flow.join(0.5)
            size = log.stat().st_size if log.exists() else 0
            if size != seen:
                patience.renew()
            seen = size
            patience.check()
    finally:
        flow.kill()
    return int(flow.exitcode)


def _fork_on_request(listener: Listener, desk: Desk) -> None:
    while True:
        try:
            with listener.accept() as flow:
                process = CONTEXT.Process(target=_service, args=(desk, *flow.recv()))
                process.start()
                flow.send(process.pid)
        except (OSError, EOFError):
            if listener._listener is None:  # type: ignore[attr-defined]
                return


def _flow(config: str, kills: Kills, log: str, desk: Desk) -> None:
    _to_file(log)
    _become(desk.environment)
    # As often as ever, but sooner.
    for stage in (tasks.training.gather_rollouts, tasks.training.commit_step):
        stage.retry_delay_seconds = [0.1]
    silent_s = os.environ.get("PRECIS_TEST_SAID_AFTER_S")
    precis.llm.silence._SAID_AFTER_S = float(silent_s or precis.llm.silence._SAID_AFTER_S)
    precis.trainer.client._RECONNECTS = (0.05, 0.1, 0.1, 0.1, 0.1)
    pause: Any = partial(apause_flow_run, poll_interval=1)
    tasks.training.apause_flow_run = pause  # type: ignore[attr-defined]
    sign_in("flow", kills)
    arm("flow", kills)
    try:
        train = _flow_with(_forked_service(kills, desk))
        asyncio.run(train(TrainConfig.model_validate_json(config)))
    except PrecisError as error:
        sys.exit(f"{type(error).__name__}: {error}")


def _flow_with(launch: Launch) -> Any:
    """The training flow as users run it, but for how its services are started."""

    @flow(
        name="train",
        flow_run_name=named("train {model} to step {steps}"),
        validate_parameters=False,
    )
    @says_why_it_stops
    @takes_settings(TrainConfig)
    async def train(config: TrainConfig) -> Any:
        return await run_training(config, launch)

    return train


def _forked_service(kills: Kills, desk: Desk) -> Any:
    @asynccontextmanager
    async def service(
        module: str, arguments: Sequence[str], log: Path, _python: str = "", **_: Any
    ) -> AsyncIterator[ChildService]:
        token = secrets.token_urlsafe(32)
        with Listener(family="AF_UNIX") as door:
            with Client(desk.address) as ask:
                ask.send((module, list(arguments), token, door.address, str(log), kills))
                pid = int(ask.recv())
            line = await asyncio.to_thread(door.accept)
        with line:
            port = await asyncio.to_thread(line.recv)
            try:
                yield ChildService(f"http://127.0.0.1:{port}", token, pid)
            finally:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                await until(lambda: not is_running(pid), f"the end of {module}")

    return service


def _service(
    desk: Desk, module: str, arguments: list[str], token: str, door: str, log: str, kills: Kills
) -> None:
    _to_file(log)
    _become(desk.environment)
    parent = Client(door)
    os.environ[TOKEN_VARIABLE] = token
    sys.stdout = _Port(parent, lambda: None)
    threading.Thread(target=_exit_with, args=(parent,), daemon=True).start()
    if module == "precis.trainer.server":
        arm("trainer", kills)
        sys.stdout = _Port(parent, lambda: sign_in("trainer", kills))
        arguments.remove("--with-parent")
        options = dict(zip(arguments[::2], arguments[1::2], strict=True))
        backend: Any = options["--backend"]
        precis.trainer.server.main(Path(options["--path"]), int(options["--seed"]), backend=backend)
    else:
        precis.rehearsal.judges.serve.main()


def _exit_with(parent: Connection) -> None:
    """As `serve(with_parent=True)` does: the kernel closes the pipe when the parent goes."""
    try:
        parent.recv()
    except (EOFError, OSError):
        os._exit(0)


class _Port(io.TextIOBase):
    """Standard output of a service, which says its port on its first line."""

    def __init__(self, parent: Connection, listening: Callable[[], None]) -> None:
        self._parent, self._listening = parent, listening

    def write(self, text: str) -> int:
        if text.strip():
            self._listening()
            self._parent.send(json.loads(text)["port"])
        return len(text)


def _become(environment: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)


def _to_file(log: str) -> None:
    Path(log).parent.mkdir(parents=True, exist_ok=True)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(file, 1)
    os.dup2(file, 2)
