"""A policy that says what it is told to, with token ids as vLLM gives them, and what asks it."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from precis.config import RateLimits
from precis.environments.protocol import Environment
from precis.environments.session import Limits, Policy
from precis.llm.client import ChatClient, OwnServer
from precis.llm.providers import Endpoint
from precis.llm.retry import OWN_CALL_TIMEOUT_S
from precis.llm.server import ChatRequest, Choice, Completion, ToolCall, completions_app
from precis.records.rollout import Scenario, Split
from tests.support.local_server import serving

MODEL = "policy@3"
LIMITS = Limits(deadline_s=20.0, turns_max=10, tokens_max=1000)

Act = Callable[[Any, Scenario], Awaitable[Any]]


class ScriptedPolicy:
    """Answers with what `say` returns for each request, and keeps the requests.

    An answer's tokens are its characters' code points, and a prompt's those of its messages.
    """

    def __init__(self, say: Callable[[ChatRequest], str | ToolCall] = lambda _: "[4]") -> None:
        self.say = say
        self.model = MODEL
        self.with_ids = True
        self.requests: list[ChatRequest] = []

    async def __call__(self, request: ChatRequest) -> Completion:
        self.requests.append(request)
        said = self.say(request)
        choice = Choice(said) if isinstance(said, str) else Choice("", "tool_calls")
        if isinstance(said, ToolCall):
            choice = replace(choice, tool_calls=[said])
        ids = list(map(ord, said if isinstance(said, str) else said.arguments))
        entries = []
        for one in ids:
            entries.append({"token": f"token_id:{one}", "logprob": -one / 100, "top_logprobs": []})
        choice = replace(choice, completion_tokens=len(ids))
        if request.logprobs:
            choice = replace(choice, logprobs=entries)
        if not (request.return_token_ids and self.with_ids):
            return Completion(self.model, [choice])
        prompt = "".join(str(message.get("content")) for message in request.messages)
        choice = replace(choice, token_ids=ids)
        return Completion(self.model, [choice], prompt_ids=list(map(ord, prompt)))


class Agent(Environment):
    """An environment whose rollout is a function."""

    def __init__(self, act: Act) -> None:
        self._act = act

    def scenarios(self, split: Split) -> Sequence[Scenario]:
        return [Scenario("a"), Scenario("b")]

    async def rollout(self, model: Any, scenario: Scenario) -> Any:
        return await self._act(model, scenario)


@asynccontextmanager
async def asked(scripted: ScriptedPolicy, **changes: Any) -> AsyncIterator[Policy]:
    """The policy of a step, served and asked as a trained adapter is."""
    limits = RateLimits(requests_per_minute=10**6, tokens_per_minute=10**9, in_flight=100)
    async with (
        serving(completions_app(scripted, lambda: [MODEL], "the-key")) as url,
        ChatClient(
            Endpoint(f"{url}/v1", MODEL, "the-key", role=f"policy {MODEL}"),
            OwnServer(limits, OWN_CALL_TIMEOUT_S),
            prices={},
        ) as client,
    ):
        policy = Policy(
            client,
            LIMITS,
            {"temperature": 1.0},
            lambda scenario, index, turn: 1000 * index + turn,
            name="policy",
            step=3,
            trained=True,
        )
        yield replace(policy, **changes)
