"""An ASGI app served from the running event loop."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from starlette.applications import Starlette

from precis.llm.loop_server import LoopServer


@asynccontextmanager
async def broken(_: Starlette) -> AsyncIterator[None]:
    raise ValueError("no database")
    yield


async def test_an_app_that_does_not_start_is_waited_for_no_longer() -> None:
    server = LoopServer(Starlette(lifespan=broken))
    async with asyncio.timeout(5):
        with pytest.raises(RuntimeError, match="did not start"):
            await server.start()
    assert not server.alive
