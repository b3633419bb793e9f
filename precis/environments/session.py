"""One rollout's calls to the policy: their requests, records and limits."""

import asyncio
import contextvars
import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from pydantic import BaseModel, Field, ValidationError
from starlette.responses import JSONResponse, Response

from precis.environments.addresses import stream
from precis.errors import (
    BudgetReached,
    PrecisError,
    ProviderFailed,
    ProviderRejected,
    StaleAdapter,
    TrainerError,
    TrainerLost,
)
from precis.llm.client import ChatReply, CompletionRequest
from precis.llm.providers import Endpoint
from precis.llm.replies import REFUSALS
from precis.llm.retry import Deadline
from precis.llm.server import ApiError, callable_tools
from precis.llm.tokens import estimate_tokens_with_margin
from precis.record import first_problem
from precis.records.rollout import Call, Scenario, Tool, Unscored, typed_tool
from precis.records.spend import Usage


class _ToolCall(BaseModel):
    id: str | None = None
    function: dict[str, Any] | None = None
    custom: dict[str, Any] | None = None


class _Message(BaseModel):
    role: str
    tool_calls: list[_ToolCall] | None = None
    tool_call_id: str | None = None


class _Request(BaseModel, strict=True):
    """The fields of a request that must be as in OpenAI's types to be recorded and trained on;
    others may be anything. JSON with half of a character, which no file can store, is refused."""

    messages: list[_Message] = Field(min_length=1)
    tools: list[Tool] | None = None
    n: Literal[1] | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stream_options: dict[str, Any] | None = None


_DECIDED = {
    "model",
    "stream",
    "stream_options",
    "n",
    "seed",
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "frequency_penalty",
    "presence_penalty",
    "repetition_penalty",
    "logit_bias",
    "logprobs",
    "top_logprobs",
    "return_token_ids",
    "return_tokens_as_token_ids",
    "max_tokens",
    "max_completion_tokens",
}
"""Fields of a request that the agent can't set: they determine the policy's sampling."""
_NO_SUCH_MODEL = (401, 404)


@dataclass(frozen=True)
class Limits:
    """The limits of one rollout: `Limits(deadline_s=300, turns_max=40, tokens_max=8192)`; the last
    is for sampled tokens over all calls."""

    deadline_s: float
    turns_max: int
    tokens_max: int


class Client(Protocol):
    """A client of an endpoint: a `ChatClient`, or a wrapper of one."""

    @property
    def endpoint(self) -> Endpoint: ...

    async def complete(
        self, request: CompletionRequest, deadline: Deadline, read: Callable[[ChatReply], ChatReply]
    ) -> ChatReply: ...


@dataclass(frozen=True)
class Policy:
    """A policy for the recorder: a trained adapter, a contender, a teacher or a baseline.

    Attributes:
        parameters: fixed fields of each request, which override the agent's.
        seed_of: the seed of a call, by scenario, index and turn; if None, no seed is sent.
        name: the model's name for the agent; the endpoint's if empty.
        step: the step of the trained adapter that must answer; None for any other model.
        trained: whether its answers are trained on, which requires token ids.
    """

    client: Client
    limits: Limits
    parameters: Mapping[str, Any] = field(default_factory=dict)
    seed_of: Callable[[Scenario, int, int], int] | None = None
    name: str = ""
    step: int | None = None
    trained: bool = False


class Session:
    """Calls the policy for one rollout, and records each call.

    Attributes:
        over: why the rollout can't be scored, once known; an error ends the step too.
        refusal: the last request that was refused by itself.
    """

    def __init__(self, policy: Policy, scenario: Scenario, index: int) -> None:
        self.calls: list[Call] = []
        self.over: asyncio.Future[Unscored | PrecisError]
        self.over = asyncio.get_running_loop().create_future()
        self.refusal: Unscored | None = None
        self._policy = policy
        self._scenario = scenario
        self._index = index
        self._turns = 0
        self._tokens = 0
        self._waiting: set[asyncio.Task[Response]] = set()
        self._closed = False
        self._context = contextvars.copy_context()

    async def answer(self, content: bytes) -> Response:
        """Answer a request for a chat completion, given as JSON."""
        # In the agent's context its `art.capture_auto_trajectory` would record our request too.
        context = self._context.copy()
        task = asyncio.get_running_loop().create_task(self._answer(content), context=context)
        self._waiting.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            if not self._closed or not task.cancelled():
                raise
            return ApiError(410, "The rollout has ended.", "rollout_ended").response()
        finally:
            task.cancel()
            self._waiting.discard(task)

    def close(self) -> None:
        """Cancel pending requests, and answer no more."""
        self._closed = True
        for task in self._waiting:
            task.cancel()

    async def _answer(self, content: bytes) -> Response:
        if self._closed or self.over.done():
            return ApiError(410, "The rollout has ended.", "rollout_ended").response()
        try:
            _Request.model_validate_json(content)
        except ValidationError as error:
            return self._decline(400, f"The request can't be recorded: {first_problem(error)}.")
        body = json.loads(content, parse_constant=lambda _: None)  # null for NaN, as in JavaScript
        limits = self._policy.limits
        tokens = limits.tokens_max - self._tokens
        if self._turns >= limits.turns_max:
            return self._exceed("turns", f"It asked the model more than {limits.turns_max} times.")
        if tokens <= 0:
            return self._exceed("tokens", f"It took more than {limits.tokens_max} sampled tokens.")
        turn = self._turns
        self._turns += 1
        prompt_tokens = estimate_tokens_with_margin(len(content))
        return await self._ask(body, self._payload(body, turn, tokens), prompt_tokens)

    def _payload(self, body: Mapping[str, Any], turn: int, tokens_left: int) -> dict[str, Any]:
        policy = self._policy
        wanted = body.get("max_completion_tokens") or body.get("max_tokens")
        payload = {key: value for key, value in body.items() if key not in _DECIDED}
        payload["model"] = policy.client.endpoint.model
        # vLLM refuses a limit beyond its context, and without one uses the rest of it: an adapter's
        # context is mostly shorter than a rollout's limit.
        if wanted or policy.step is None:
            payload["max_tokens"] = min(wanted or tokens_left, tokens_left)
        payload.update(policy.parameters)
        if policy.seed_of is not None:
            payload["seed"] = policy.seed_of(self._scenario, self._index, turn)
        if policy.trained:
            payload["logprobs"] = True
            payload["return_token_ids"] = True
            # vLLM need not return token names unless the agent asked for them.
            payload["return_tokens_as_token_ids"] = not body.get("logprobs")
        return payload

    async def _ask(
        self, body: Mapping[str, Any], payload: dict[str, Any], prompt_tokens: int
    ) -> Response:
        asked_at = time.time()
        # The rollout's own deadline comes first.
        deadline = Deadline(2 * self._policy.limits.deadline_s)
        request = CompletionRequest(payload, Usage(prompt_tokens, payload.get("max_tokens", 0)))
        try:
            reply = await self._policy.client.complete(request, deadline, self._check)
        except PrecisError as error:
            return self._fail(error)
        self.calls.append(call_of(payload, reply, asked_at))
        self._tokens += reply.usage.completion_tokens
        # Without the fields that the agent did not ask for.
        choice = dict(reply.choice)
        choice.pop("token_ids", None)
        if not body.get("logprobs"):
            choice.pop("logprobs", None)
        answer = {**reply.body, "choices": [choice]}
        answer.pop("prompt_token_ids", None)
        if not body.get("stream"):
            return JSONResponse(answer)
        options = body.get("stream_options") or {}
        return stream(answer, with_usage=bool(options.get("include_usage")))

    def _check(self, reply: ChatReply) -> ChatReply:
        policy = self._policy
        model = policy.client.endpoint.model
        if policy.step is not None and reply.served_by != model:
            raise StaleAdapter(f"{reply.served_by!r} answered where {model!r} was asked for.")
        if not policy.trained:
            return reply
        sampled = reply.choice.get("token_ids")
        if sampled is None or reply.body.get("prompt_token_ids") is None:
            raise TrainerError(
                f"{model} answers without the ids of its tokens, so what it wrote can't be "
                "trained on.",
                "Its server must know `return_token_ids`, as vLLM does from version 0.10.2.",
            )
        logprobs = _logprobs(reply.choice)
        if len(sampled) != len(logprobs) or not all(map(math.isfinite, logprobs)):
            detail = f"{model} gave {len(sampled)} tokens, not each with its log probability."
            raise ProviderFailed("bad_reply", detail)
        return reply

    def _fail(self, error: PrecisError) -> Response:
        """Respond that the policy did not answer, and end the rollout, or the step if the run's own
        adapter is not served any more."""
        model = self._policy.client.endpoint.model
        own = self._policy.step is not None
        if isinstance(error, ProviderRejected) and error.status in REFUSALS:
            return self._decline(error.status, str(error))
        if isinstance(error, ProviderFailed):
            if own and error.cause == "connection":
                return self._end(TrainerLost(f"Nobody answers for {model} ({error})."))
            return self._end(Unscored(f"generation_{error.cause}", f"{model}: {error}"))
        if isinstance(error, ProviderRejected):
            if own and error.status in _NO_SUCH_MODEL:
                return self._end(TrainerError(f"{model} can't be asked: {error}"))
            return self._end(Unscored("generation_rejected", f"{model}: {error}"))
        if isinstance(error, BudgetReached) and not own:
            return self._end(Unscored("budget", str(error)))
        return self._end(error)

    def _end(
        self, reason: Unscored | PrecisError, said: str = "The model did not answer."
    ) -> Response:
        if not self.over.done():
            self.over.set_result(reason)
        # After a 429 smolagents would wait for minutes, in a thread that nothing can end.
        return ApiError(410, f"{said} The rollout ends here.", "rollout_ended").response()

    def _exceed(self, cause: str, detail: str) -> Response:
        return self._end(Unscored(cause, detail), detail)

    def _decline(self, status: int, message: str) -> Response:
        self.refusal = Unscored("generation_rejected", message)
        return ApiError(status, message, "invalid_request").response()


def call_of(payload: Mapping[str, Any], reply: ChatReply, asked_at: float) -> Call:
    """Return the record of a call. With token ids from the server, log probabilities are plain
    numbers beside them; else the choice keeps them with the tokens' names."""
    choice = {key: value for key, value in reply.choice.items() if value is not None}
    sampled = choice.pop("token_ids", None)
    logprobs: tuple[float, ...] = ()
    if sampled is not None:
        logprobs = _logprobs(choice)
        choice.pop("logprobs", None)
    message = {}
    for key, value in choice["message"].items():
        if value or key == "content":
            message[key] = value
    tools = callable_tools(payload.get("tools"), payload.get("tool_choice"))
    return Call(
        messages=tuple(payload["messages"]),
        choice={**choice, "message": message},
        tools=tuple(map(typed_tool, tools)),
        prompt_ids=tuple(reply.body.get("prompt_token_ids") or ()),
        token_ids=tuple(sampled or ()),
        logprobs=logprobs,
        usage=reply.usage,
        usd=reply.usd,
        seconds=reply.seconds,
        served_by=reply.served_by,
        asked_at=asked_at,
    )


def _logprobs(choice: Mapping[str, Any]) -> tuple[float, ...]:
    given = choice.get("logprobs") or {}
    values = given.get("token_logprobs")  # from our trainer: see precis/trainer/gpu/outputs.py
    if values is None:
        values = [entry["logprob"] for entry in given.get("content") or ()]
    return tuple(math.nan if value is None else float(value) for value in values)
