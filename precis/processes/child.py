"""Child processes that serve HTTP on the loopback and never outlive their parent.

The child holds one end of a pipe as its standard input. When the parent goes, however it goes
(SIGKILL included), the kernel closes the other end, and the child exits. Where it listens the child
says on another pipe. All that it and its own children print goes to a log, so that no one of them
ever waits for a reader.
"""

import asyncio
import json
import os
import secrets
import socket
import stat
import sys
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn

from precis.errors import TrainerError
from precis.processes.causes import cause_of
from precis.processes.supervisor import end_own, find_process, wait_for_parent

TOKEN_VARIABLE = "PRECIS_TOKEN"
_PORT_VARIABLE = "PRECIS_PORT_DESCRIPTOR"
"""The number of the descriptor that a child writes its port to."""
_START_TIMEOUT_S = 120.0
_STOP_TIMEOUT_S = 15.0
"""More than a supervisor takes (`precis.processes.supervisor`)."""
_LOG_BYTES_READ = 500_000


@dataclass(frozen=True)
class ChildService:
    """A running child: its address (no trailing slash) and the bearer token it asks for."""

    url: str
    token: str = field(repr=False)
    pid: int


@dataclass(frozen=True)
class Child:
    """A child that was started, and where it prints."""

    process: asyncio.subprocess.Process
    log: Path
    log_began: int

    def output(self) -> str:
        """Return the output of it and its own children, or the end of that."""
        with self.log.open("rb") as file:
            return _read_since(file.fileno(), self.log_began)


def is_running(pid: int) -> bool:
    """Return whether a process of this machine is alive; one that only waits to be reaped is
    not."""
    if Path("/proc/self/stat").exists():
        return find_process(pid) is not None
    try:
        os.kill(pid, 0)  # not Linux
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def serve(app: Any, port: int = 0, *, with_parent: bool = False) -> None:
    """Serve an ASGI app on 127.0.0.1 until told to stop; port 0 takes a free one.

    Tells its parent the port when it listens; prints `{"port": …}` if no `child_service` is that.
    With `with_parent` it exits as soon as standard input ends, and ends what was started here.
    """

    def exit_with_parent() -> None:
        wait_for_parent()
        end_own()
        os._exit(0)

    if with_parent:
        threading.Thread(target=exit_with_parent, daemon=True).start()
    listener = socket.create_server(("127.0.0.1", port))
    # Without this each small answer waits 40 ms for the other side's acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    bound = listener.getsockname()[1]
    descriptor = os.environ.pop(_PORT_VARIABLE, None)
    if descriptor is None:
        print(json.dumps({"port": bound}), flush=True)
    else:
        with open(int(descriptor), "w") as parent:
            parent.write(f"{bound}\n")
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


@asynccontextmanager
async def child_service(
    module: str,
    arguments: Sequence[str],
    log: Path,
    python: str = sys.executable,
    *,
    supervised: bool = False,
) -> AsyncIterator[ChildService]:
    """Run `python -m module`, which calls `serve(…, with_parent=True)`, while the block lasts.

    The log takes all that it and its children print. Where it is `supervised`, whatever it has
    started ends with it, and it is a child of `pid`. A TrainerError says why it did not start.
    """
    token = secrets.token_urlsafe(32)
    supervisor = ("precis.processes.supervisor", "--with-parent") if supervised else ()
    command = [python, "-m", *supervisor, module, *arguments]
    reader, writer = os.pipe()
    variables = {TOKEN_VARIABLE: token, _PORT_VARIABLE: str(writer)}
    async with run_child(command, log, variables, [writer]) as child:
        # Ours is closed, so that the pipe ends when the child does, whether it spoke or not.
        os.close(writer)
        port = await _read_port(reader)
        if port is None:
            cause = cause_of("", child.output())
            raise TrainerError(
                f"{module} did not start: {cause.rstrip('.')}. All that it printed is in "
                f"{child.log}."
            )
        yield ChildService(f"http://127.0.0.1:{port}", token, child.process.pid)


@asynccontextmanager
async def run_child(
    command: Sequence[str], log: Path, variables: Mapping[str, str], pass_fds: Sequence[int] = ()
) -> AsyncIterator[Child]:
    """Run a command while the block lasts; its standard input ends when this process does.

    Args:
        log: takes all that the child and its own children print.
        variables: of its environment, besides ours.
        pass_fds: descriptors that it inherits.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    # For its owner alone; the child can read there what its own children printed.
    with os.fdopen(os.open(log, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600), "a+b") as printed:
        began = printed.seek(0, os.SEEK_END)
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=printed,
            stderr=printed,
            env={**os.environ, **variables},
            pass_fds=pass_fds,
            start_new_session=True,  # Ctrl-C is for the parent, which then stops us in order
        )
    try:
        yield Child(process, log, began)
    finally:
        if process.returncode is None:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), _STOP_TIMEOUT_S)
            except TimeoutError:
                process.kill()
                await process.wait()


Launch = Callable[..., AbstractAsyncContextManager[ChildService]]
"""The way in which a service of this package is started: `child_service`, or a stand-in for it."""


async def _read_port(reader: int) -> int | None:
    """Read the port that the child prints; None if it ended, or took too long."""
    pipe = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(pipe), os.fdopen(reader, "rb")
    )
    try:
        line = await asyncio.wait_for(pipe.readline(), _START_TIMEOUT_S)
        return int(line) if line else None
    except TimeoutError:
        return None
    finally:
        transport.close()


def free_port() -> int:
    """Return a port of the loopback on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


def log_end() -> int:
    """Return where this process's log ends now: its standard error, if that is a file."""
    status = os.fstat(2)
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


def output_since(began: int) -> str:
    """Return the output of this process and its children since its log ended there; empty without
    one."""
    if not stat.S_ISREG(os.fstat(2).st_mode):
        return ""
    try:
        return _read_since(2, began)
    except OSError:  # it can only be written
        return ""


def _read_since(descriptor: int, began: int) -> str:
    size = os.fstat(descriptor).st_size
    start = max(began, size - _LOG_BYTES_READ)
    return os.pread(descriptor, max(size - start, 0), start).decode(errors="replace")
