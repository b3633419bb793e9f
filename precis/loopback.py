"""Child processes that serve HTTP on the loopback and never outlive their parent.

The child holds one end of a pipe as its standard input. When the parent goes, however it goes
(SIGKILL included), the kernel closes the other end, and the child exits.
"""

import asyncio
import json
import os
import secrets
import socket
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn

from precis.errors import TrainerError

TOKEN_VARIABLE = "PRECIS_TOKEN"
_START_TIMEOUT_S = 120.0
_STOP_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Service:
    """A running child: its address (no trailing slash) and the bearer token it asks for."""

    url: str
    token: str = field(repr=False)
    pid: int


def is_running(pid: int) -> bool:
    """Whether a process of this machine is alive; one that only waits to be reaped is not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        pass
    try:
        os.kill(pid, 0)  # not Linux, or no such process
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def serve(app: Any, port: int = 0, *, with_parent: bool = False) -> None:
    """Serve an ASGI app on 127.0.0.1 until told to stop; prints `{"port": …}` when listening.

    Args:
        port: 0 takes a free one.
        with_parent: exit as soon as standard input ends.
    """
    if with_parent:
        threading.Thread(target=_exit_with_parent, daemon=True).start()
    listener = socket.create_server(("127.0.0.1", port))
    # Without this each small answer waits 40 ms for the other side's acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    print(json.dumps({"port": listener.getsockname()[1]}), flush=True)
    # ART patches the loop with nest_asyncio, which only knows the standard one.
    config = uvicorn.Config(
        app,
        loop="asyncio",
        log_level="warning",
        access_log=False,
        timeout_keep_alive=600,  # a client may pause for as long as a step takes
        timeout_graceful_shutdown=5,
    )
    uvicorn.Server(config).run(sockets=[listener])


def _exit_with_parent() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


@asynccontextmanager
async def child_service(
    module: str, arguments: Sequence[str], log: Path, python: str = sys.executable
) -> AsyncIterator[Service]:
    """Run `python -m module`, which calls `serve(…, with_parent=True)`, while the block lasts.

    Args:
        log: takes what the child prints on standard error.
        python: of another environment, where the module's packages are.

    Raises:
        TrainerError: it did not start; the message ends with the last of its log.
    """
    token = secrets.token_urlsafe(32)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as errors:
        process = await asyncio.create_subprocess_exec(
            python,
            *("-m", module, *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            env={**os.environ, TOKEN_VARIABLE: token},
            start_new_session=True,  # Ctrl-C is for the parent, which then stops us in order
        )
    try:
        port = await _port(process, module, log)
        yield Service(f"http://127.0.0.1:{port}", token, process.pid)
    finally:
        await _stop(process)


async def _port(process: asyncio.subprocess.Process, module: str, log: Path) -> int:
    assert process.stdout is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), _START_TIMEOUT_S)
        return int(json.loads(line)["port"])
    except (TimeoutError, ValueError, KeyError) as error:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-5:])
        raise TrainerError(f"{module} did not start. The end of {log}:\n{tail}") from error


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    process.terminate()
    try:
        await asyncio.wait_for(process.wait(), _STOP_TIMEOUT_S)
    except TimeoutError:
        process.kill()
        await process.wait()
