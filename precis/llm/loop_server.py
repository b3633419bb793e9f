"""An ASGI app served from the running event loop, beside the process's other work."""

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Literal

import uvicorn

from precis.llm.server import Complete, completions_app

_KEEP_ALIVE_S = 600
_START_POLL_S = 0.005


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave SIGINT and SIGTERM to the host process."""
        yield


class LoopServer:
    """A server on a free port, which lives as long as its event loop."""

    def __init__(
        self, app: Any, host: str = "127.0.0.1", lifespan: Literal["auto", "off"] = "off"
    ) -> None:
        self._host = host
        # A pooled connection should stay open through a client's long pause.
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            ws="none",
            lifespan=lifespan,  # on, it prints a traceback where a second Ctrl-C ends the loop
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=5,
        )
        self._server = _Server(config)
        self._task: asyncio.Task[None] | None = None
        self.port = 0

    async def start(self) -> None:
        """Listen, and return when requests are answered. Raises OSError if the host is not an
        address of this machine."""
        listener = socket.create_server((self._host, 0))
        # Without this each answer waits 40 ms for the client's delayed ACK.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.port = listener.getsockname()[1]
        self._task = asyncio.create_task(self._server.serve(sockets=[listener]))
        while not self._server.started:
            if self._task.done():
                listener.close()
                await self._task
                raise RuntimeError("The app did not start.")
            await asyncio.sleep(_START_POLL_S)

    async def stop(self) -> None:
        """Finish pending requests, then close the port."""
        if self._task is not None and not self._task.done():
            self._server.should_exit = True
            await self._task


@asynccontextmanager
async def served_completions(
    complete: Complete, list_models: Callable[[], Sequence[str]]
) -> AsyncIterator[tuple[str, str]]:
    """Serve completions from the running event loop within the block; yield address and key."""
    key = secrets.token_urlsafe(32)
    server = LoopServer(completions_app(complete, list_models, key))
    await server.start()
    try:
        yield f"http://127.0.0.1:{server.port}/v1", key
    finally:
        await server.stop()
