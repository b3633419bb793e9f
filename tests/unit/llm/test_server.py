"""What a server of ours leaves a model to choose from, and an app that does not start."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from starlette.applications import Starlette

from precis.llm.loop_server import LoopServer
from precis.llm.server import (
    callable_tools,
)


@pytest.mark.parametrize("choice", [None, "auto", "required", {"function": "look"}, {"type": "x"}])
def test_a_choice_that_names_no_tool_leaves_all(choice: object) -> None:
    tools = [{"function": {"name": "look"}}, {"function": {"name": "go"}}]
    assert callable_tools(tools, choice) == tools
    assert callable_tools(tools, {"function": {"name": "go"}}) == tools[1:]
    assert callable_tools(tools, "none") == ()


@asynccontextmanager
async def broken(_: Starlette) -> AsyncIterator[None]:
    raise ValueError("no database")
    yield


async def test_an_app_that_does_not_start_is_waited_for_no_longer() -> None:
    server = LoopServer(Starlette(lifespan=broken))
    async with asyncio.timeout(60):
        with pytest.raises(RuntimeError, match="did not start"):
            await server.start()
    assert not server.alive
