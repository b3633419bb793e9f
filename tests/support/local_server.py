"""An ASGI app on the loopback in a thread of its own, for commands that run their own loop."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from anyio.from_thread import start_blocking_portal

from precis.llm.loop_server import LoopServer


@contextmanager
def served(app: Any) -> Iterator[str]:
    """Serve an app while the block lasts; gives its address without a trailing slash."""
    server = LoopServer(app, lifespan="auto")
    with start_blocking_portal() as portal:
        portal.call(server.start)
        try:
            yield f"http://127.0.0.1:{server.port}"
        finally:
            portal.call(_end, server)


async def _end(server: LoopServer) -> None:
    await server.stop()
    # What a client left unread keeps its connection open.
    for connection in server._server.server_state.connections:
        connection.transport.abort()


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[str]:
    """Serve an app from this event loop while the block lasts; gives its address likewise."""
    server = LoopServer(app, lifespan="auto")
    await server.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        await asyncio.wait_for(server.stop(), 60)
