"""What a server of ours leaves a model to choose from, and an app that does not start."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from httpx import AsyncClient
from starlette.applications import Starlette

from precis.llm.loop_server import LoopServer, served_completions
from precis.llm.server import ChatRequest, Choice, Completion, callable_tools, completions_app


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
    server = LoopServer(Starlette(lifespan=broken), lifespan="auto")
    async with asyncio.timeout(60):
        with pytest.raises(RuntimeError, match="did not start"):
            await server.start()
    await server.stop()


async def nobody_asks(asked: ChatRequest) -> Completion:
    raise AssertionError("there is no request")


def test_a_loop_that_ends_first_prints_no_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    async def leave() -> None:
        server = LoopServer(completions_app(nobody_asks, list))
        await server.start()
        for listening in server._server.servers:
            listening.close()

    asyncio.run(leave())  # which cancels all tasks, as a second Ctrl-C does
    assert capfd.readouterr().err == ""


async def test_a_client_that_leaves_while_it_asks_is_no_error() -> None:
    async def leave() -> dict[str, str]:
        return {"type": "http.disconnect"}

    async def send(message: object) -> None:
        pass

    app = completions_app(nobody_asks, list)
    path = "/v1/chat/completions"
    await app({"type": "http", "method": "POST", "path": path, "headers": []}, leave, send)


async def test_completions_are_served_to_who_has_the_key() -> None:
    async def complete(asked: ChatRequest) -> Completion:
        return Completion(asked.model, [Choice("Yes.")])

    asked = {"model": "m", "messages": [{"role": "user", "content": "Well?"}]}
    async with served_completions(complete, lambda: ["m"]) as (url, key), AsyncClient() as http:
        for given, status in ((key, 200), (f"{key}x", 401), ("x", 401)):
            headers = {"authorization": f"Bearer {given}"}
            said = await http.post(f"{url}/chat/completions", json=asked, headers=headers)
            listed = await http.get(f"{url}/models", headers=headers)
            assert (said.status_code, listed.status_code) == (status, status)
