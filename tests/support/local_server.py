"""An ASGI app on the loopback in a thread of its own, for commands that run their own loop."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from precis.llm.loop_server import LoopServer


@contextmanager
def served(app: Any) -> Iterator[str]:
    """Serve an app while the block lasts; gives its address without a trailing slash."""
    server, loop = LoopServer(app, lifespan="auto"), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(server.start(), loop).result(120)
        yield f"http://127.0.0.1:{server.port}"
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(120)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[str]:
    """Serve an app from this event loop while the block lasts; gives its address likewise."""
    server = LoopServer(app, lifespan="auto")
    await server.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        await asyncio.wait_for(server.stop(), 60)
