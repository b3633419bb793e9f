"""What a forked process does: a life of the training flow, or one of its services.

The server that forks has imported this once; `tests.services.forked` asks it for processes.
"""

import asyncio
import io
import json
import os
import secrets
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from multiprocessing.connection import Client, Connection, Listener
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
from tests.services.patience import until


def live(config: str, kills: Kills, desk: str) -> None:
    """Live the training flow, with services that are forked by who listens at the desk."""
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


def _forked_service(kills: Kills, desk: str) -> Any:
    @asynccontextmanager
    async def service(
        module: str, arguments: Sequence[str], log: Path, _python: str = "", **_: Any
    ) -> AsyncIterator[ChildService]:
        token = secrets.token_urlsafe(32)
        with Listener(family="AF_UNIX") as door:
            with Client(desk) as ask:
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


def serve(module: str, arguments: list[str], token: str, door: str, kills: Kills) -> None:
    """Be one of its services, which says its port at the door."""
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
