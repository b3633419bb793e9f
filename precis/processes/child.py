"""Child processes that serve HTTP on the loopback and end with their parent.

The child's standard input is a pipe. When the parent ends, even by SIGKILL, the kernel closes the
other end, and the child exits. The child reports its port on another pipe. Its output and that of
its children goes to a log, so that none of them blocks on a reader.
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
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import uvicorn

from precis.errors import TrainerError
from precis.processes.causes import cause_of
from precis.processes.supervisor import end_own, running, wait_for_parent

TOKEN_VARIABLE = "PRECIS_TOKEN"
_PORT_VARIABLE = "PRECIS_PORT_DESCRIPTOR"
"""The variable with the descriptor that a child writes its port to."""
_START_TIMEOUT_S = 120.0
_STOP_TIMEOUT_S = 20.0
"""Longer than a supervisor takes (`precis.processes.supervisor`)."""
_LOG_BYTES_READ = 500_000
_PORTS = range(20_000, 30_000)
"""Below those that Linux gives to connections (32768 and up)."""


@dataclass(frozen=True)
class ChildService:
    """A running child: its address (no trailing slash) and its bearer token."""

    url: str
    token: str = field(repr=False)
    pid: int


@dataclass(frozen=True)
class Child:
    """A started child, and its log."""

    process: asyncio.subprocess.Process
    log: Path
    log_began: int

    def output(self) -> str:
        """Return the output of the child and its children, or the end of it."""
        with self.log.open("rb") as file:
            return _read_since(file.fileno(), self.log_began)


def is_running(pid: int) -> bool:
    """Return whether a process of this machine is alive, and not a zombie."""
    try:
        return bool(running([psutil.Process(pid)]))
    except psutil.NoSuchProcess:
        return False


def serve(app: Any, port: int = 0, *, with_parent: bool = False) -> None:
    """Serve an ASGI app on 127.0.0.1 until a signal; port 0 takes a free one.

    Reports the port to a `child_service` when it listens, or else prints `{"port": …}`. With
    `with_parent` it exits when standard input ends, and ends its children.
    """

    def exit_with_parent() -> None:
        wait_for_parent()
        end_own()
        os._exit(0)

    if with_parent:
        threading.Thread(target=exit_with_parent, daemon=True).start()
    listener = socket.create_server(("127.0.0.1", port))
    # Without this each small answer waits 40 ms for the peer's acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    bound = listener.getsockname()[1]
    descriptor = os.environ.pop(_PORT_VARIABLE, None)
    if descriptor is None:
        print(json.dumps({"port": bound}), flush=True)
    else:
        with open(int(descriptor), "w") as parent:
            parent.write(f"{bound}\n")
    # ART patches the loop with nest_asyncio, which supports only the standard one.
    config = uvicorn.Config(
        app,
        loop="asyncio",
        log_level="warning",
        access_log=False,
        timeout_keep_alive=600,  # a client may pause for a whole step
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
    """Run `python -m module`, which calls `serve(…, with_parent=True)`, within the block.

    The log receives its output and its children's. If `supervised`, its children end with it, and
    it is a child of `pid`. Raises TrainerError with the cause if it did not start.
    """
    token = secrets.token_urlsafe(32)
    supervisor = ("precis.processes.supervisor", "--with-parent") if supervised else ()
    command = [python, "-m", *supervisor, module, *arguments]
    reader, writer = map(open, os.pipe(), ("rb", "wb"))
    variables = {TOKEN_VARIABLE: token, _PORT_VARIABLE: str(writer.fileno())}
    with reader, writer:
        async with run_child(command, log, variables, [writer.fileno()]) as child:
            writer.close()  # so that the pipe ends with the child
            pipe = asyncio.StreamReader()
            transport, _ = await asyncio.get_running_loop().connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(pipe), reader
            )
            try:
                port = (await asyncio.wait_for(pipe.readline(), _START_TIMEOUT_S)).strip().decode()
            except TimeoutError as error:
                raise TrainerError(
                    f"{module} did not listen within {_START_TIMEOUT_S:.0f} s. All that it printed "
                    f"is in {child.log}."
                ) from error
            finally:
                transport.close()
            if not port:
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
    """Run a command within the block; its standard input ends with this process.

    Args:
        log: receives the output of the child and its children.
        variables: environment variables besides ours.
        pass_fds: descriptors that it inherits.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    # Readable by its owner only; the child reads its children's output there.
    with os.fdopen(os.open(log, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600), "a+b") as printed:
        began = printed.seek(0, os.SEEK_END)
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=printed,
            stderr=printed,
            env={**os.environ, **variables},
            pass_fds=pass_fds,
            start_new_session=True,  # Ctrl-C goes to the parent only, which then stops us properly
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
"""A function that starts a service: `child_service`, or a substitute."""


def free_port() -> int:
    """Return a free port of the loopback for a server that is yet to start, which may take a
    minute: not one of those that the kernel gives to every connection, if possible."""
    for port in secrets.SystemRandom().sample(_PORTS, 20):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    with socket.create_server(("127.0.0.1", 0)) as listener:
        given: int = listener.getsockname()[1]
    return given


def log_end() -> int:
    """Return the current end of this process's log, its standard error, if that is a file."""
    status = os.fstat(2)
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


def output_since(began: int) -> str:
    """Return the output of this process and its children since that position; empty without a
    log."""
    try:
        return _read_since(2, began)
    except OSError:  # no file, or not readable
        return ""


def _read_since(descriptor: int, began: int) -> str:
    size = os.fstat(descriptor).st_size
    start = max(began, size - _LOG_BYTES_READ)
    return os.pread(descriptor, max(size - start, 0), start).decode(errors="replace")
