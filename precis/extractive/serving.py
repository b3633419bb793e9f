"""An ASGI app served from the running event loop, beside whatever else the process does."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn

_KEEP_ALIVE_S = 600
_START_POLL_S = 0.005


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave SIGINT and SIGTERM to the process that we are a guest in."""
        yield


class LoopServer:
    """A server on 127.0.0.1 and a free port; it lives as long as its event loop."""

    def __init__(self, app: Any) -> None:
        # A client's pool may hold a connection through a long pause and should find it open.
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            ws="none",
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=5,
        )
        self._server = _Server(config)
        self._task: asyncio.Task[None] | None = None
        self.port = 0

    async def start(self) -> None:
        """Listen; returns when requests are answered."""
        # asyncio sets TCP_NODELAY only where the protocol is named; without it each answer
        # waits 40 ms for the client's delayed ACK.
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.bind(("127.0.0.1", 0))
        self.port = listener.getsockname()[1]
        self._task = asyncio.create_task(self._server.serve(sockets=[listener]))
        while not self._server.started:
            await asyncio.sleep(_START_POLL_S)

    @property
    def alive(self) -> bool:
        """Whether it serves in the event loop that runs now."""
        task = self._task
        return bool(task and not task.done() and task.get_loop() is asyncio.get_running_loop())

    async def stop(self) -> None:
        """Answer what is under way, then close the port."""
        if self._task is not None and self.alive:
            self._server.should_exit = True
            await self._task
