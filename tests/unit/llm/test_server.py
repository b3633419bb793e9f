"""What a server of ours answers, as our client reads it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from starlette.applications import Starlette

from precis.config import RateLimits
from precis.llm.client import ChatClient, ChatReply, CompletionRequest, OwnServer
from precis.llm.loop_server import LoopServer
from precis.llm.providers import Endpoint
from precis.llm.retry import Deadline
from precis.llm.server import (
    ChatRequest,
    Choice,
    Completion,
    ToolCall,
    callable_tools,
    completions_app,
)
from precis.records.spend import Usage
from tests.support.local_server import serving

PLAY = {"type": "function", "function": {"name": "play", "parameters": {"type": "object"}}}


async def ask(answer: Completion, **options: object) -> tuple[ChatReply, ChatRequest]:
    asked: list[ChatRequest] = []

    async def complete(request: ChatRequest) -> Completion:
        asked.append(request)
        return answer

    payload = {"model": "m", "messages": [{"role": "user", "content": "Play."}], **options}
    request = CompletionRequest(payload, Usage(1, 1))
    settings = OwnServer(RateLimits(), 5.0)
    async with serving(completions_app(complete, lambda: ["m"])) as url:
        endpoint = Endpoint(f"{url}/v1", "m", "key", key_variable="", role="m")
        async with ChatClient(endpoint, settings, prices={}) as client:
            reply = await client.complete(request, Deadline(5.0), lambda reply: reply)
    return reply, asked[0]


async def test_a_tool_call_arrives_as_it_was_made() -> None:
    call = ToolCall("call-1", "play", '{"cell": 5}')
    choice = Choice("", "tool_calls", tool_calls=[call], completion_tokens=1)
    reply, asked = await ask(Completion("m", [choice]), tools=[PLAY])
    assert asked.tools == [PLAY]
    assert (reply.text, reply.finish) == ("", "tool_calls")
    function = {"name": "play", "arguments": '{"cell": 5}'}
    assert reply.tool_calls == [{"id": "call-1", "type": "function", "function": function}]
    assert reply.choice["message"]["content"] is None


async def test_tokens_are_given_by_id_as_vllm_gives_them() -> None:
    completion = Completion("m", [Choice("Yes.", token_ids=[7, 8])], prompt_ids=[1, 2, 3])
    reply, asked = await ask(completion, return_token_ids=True)
    assert asked.return_token_ids
    assert reply.body["prompt_token_ids"] == [1, 2, 3]
    assert reply.choice["token_ids"] == [7, 8]
    without, _ = await ask(Completion("m", [Choice("Yes.")]))
    assert without.tool_calls == ()
    assert "tool_calls" not in without.choice["message"]
    assert "token_ids" not in without.choice and "prompt_token_ids" not in without.body


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
    async with asyncio.timeout(5):
        with pytest.raises(RuntimeError, match="did not start"):
            await server.start()
    assert not server.alive
