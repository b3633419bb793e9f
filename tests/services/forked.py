"""The training flow and its services as processes that are forked, for tests that kill many.

A server process imports everything once (Python's own forkserver; `warmed` says what else it
does) and forks each process from there, so that a life of the pipeline takes two seconds instead
of ten. Apart from how they are started they are what users run: the flow against a real Prefect
server, the trainer and the judge behind HTTP, each a process that SIGKILL can hit.
"""

import json
import multiprocessing
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Listener
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from tests.services.crash_points import Kills
from tests.services.patience import Patience

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.services.forked_flow", "tests.services.warmed"])


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
    from tests.services import forked_flow  # takes seconds, and is there where this is forked

    forked_flow.live(config, kills, desk.address)


def _service(
    desk: Desk, module: str, arguments: list[str], token: str, door: str, log: str, kills: Kills
) -> None:
    _to_file(log)
    _become(desk.environment)
    from tests.services import forked_flow

    forked_flow.serve(module, arguments, token, door, kills)


def _become(environment: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)


def _to_file(log: str) -> None:
    Path(log).parent.mkdir(parents=True, exist_ok=True)
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(file, 1)
    os.dup2(file, 2)
