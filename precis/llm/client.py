"""The client of every server that speaks OpenAI's API. Callers add their prompts, the validation of
replies, and the handling of failures.

    limits → deadline → hedging → POST → cost → first choice → what the caller reads in it
"""

import asyncio
import json
import logging
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any, Self, TypeVar

import httpx

from precis.config import ContenderConfig, JudgeConfig, RateLimits
from precis.errors import ConfigError, ProviderFailed, ProviderRejected
from precis.llm.budget import Budget
from precis.llm.connections import ONE_CONNECTION, BoundedClient, ClientPool, ReplyTooLarge
from precis.llm.hedging import Hedging
from precis.llm.limits import Limiter, Turn
from precis.llm.providers import Endpoint
from precis.llm.replies import first_choice, open_response, strip_code_fence
from precis.llm.retry import OWN_BACKOFF_S, OWN_TRIES_MAX, Deadline
from precis.llm.silence import SilenceWatch
from precis.records.spend import Prices, Spend, Usage, usd

T = TypeVar("T")
Payload = Mapping[str, Any]

_CONNECT_TIMEOUT_S = 10.0
_BACKOFF_GROWTH_MAX = 60
_UNSENT = (
    httpx.ConnectError,
    httpx.ConnectTimeout,
    httpx.PoolTimeout,
    httpx.ProxyError,
    httpx.UnsupportedProtocol,
    httpx.WriteError,
)
"""The errors of a request that has not reached the server."""
_log = logging.getLogger(__name__)
_random = random.Random()  # the global one belongs to whoever seeded it


@dataclass(frozen=True)
class OwnServer:
    """The settings of a client of the run's own server."""

    limits: RateLimits
    call_timeout_s: float
    tries_max: int = OWN_TRIES_MAX
    backoff_s: float = OWN_BACKOFF_S


ClientSettings = JudgeConfig | ContenderConfig | OwnServer
"""The settings of a client."""


@dataclass(frozen=True)
class CompletionRequest:
    """A request's body, and its estimated tokens; requests of one kind take similarly long
    (`Hedging`). With a `schema` JSON is asked for by it, or as far as the model supports that: the
    prompt has to describe it too."""

    payload: Payload
    expected: Usage
    kind: str = "completion"
    schema: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class ChatReply:
    """The first choice of a response, and its cost.

    Attributes:
        body: the original response.
        usd: of the expected tokens if the response has no usage; None if neither the response nor
            the price table gives it.
        served_by: the model's name in the response.
        seconds: from the request to the whole response.
    """

    body: Payload
    choice: Payload
    text: str
    finish: str
    usage: Usage
    usd: float | None
    served_by: str
    seconds: float

    @classmethod
    def of(cls, body: Payload, role: str, usd: float | None, seconds: float) -> Self:
        """Return the reply in a response's body; see `first_choice`."""
        choice = first_choice(body, role)
        return cls(
            body=body,
            choice=choice,
            text=choice["message"].get("content") or "",
            finish=str(choice.get("finish_reason") or "stop"),
            usage=Usage.from_response(body.get("usage")),
            usd=usd,
            served_by=str(body.get("model", "")),
            seconds=seconds,
        )

    @property
    def tool_calls(self) -> Sequence[Payload]:
        """The choice's tool calls, in OpenAI's format."""
        return self.choice["message"].get("tool_calls") or ()


def whole_text(reply: ChatReply, role: str) -> str:
    """Return the JSON of a reply. Raises ProviderFailed for an empty or truncated one."""
    if reply.finish == "length":
        raise ProviderFailed("truncated", f"The {role}'s reply was cut off at its length limit.")
    if not reply.text.strip():
        raise ProviderFailed("empty", f"The {role}'s reply is empty.")
    return strip_code_fence(reply.text)


class ChatClient:
    """Calls one endpoint, within its limits and its budget, and adds up the cost. Raises
    ConfigError if the endpoint's address is invalid.

    `async with ChatClient(endpoint, settings) as client: await client.complete(request, deadline)`

    Args:
        prices: USD by model; others count as unpriced.
        limiter: that of another client of the same account; None makes one from `settings`.
        hedge_quantile: see `Hedging`; 0 disables it.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        settings: ClientSettings,
        *,
        prices: Prices,
        limiter: Limiter | None = None,
        budget: Budget | None = None,
        hedge_quantile: float = 0.0,
    ) -> None:
        self.endpoint = endpoint
        self.spend = Spend()
        self.limiter = limiter or Limiter(settings.limits)
        self._settings = settings
        self._prices = prices
        self._budget = budget or Budget(None)
        self._hedging = Hedging(hedge_quantile, self.limiter)
        self._watch = SilenceWatch(endpoint)
        self._unsupported: set[str] = set()
        try:
            self._url = httpx.URL(f"{endpoint.base_url}/chat/completions")
        except httpx.InvalidURL:  # what it says, and the address, may hold a password
            raise ConfigError(
                f"The address of the {endpoint.role} is invalid.", "Write http://HOST:PORT/v1."
            ) from None
        self._pool = ClientPool(
            partial(
                BoundedClient,
                str(self._url),
                endpoint.api_key,
                headers={
                    "Authorization": f"Bearer {endpoint.api_key}",
                    "Content-Type": "application/json",
                },
                timeout=httpx.Timeout(settings.call_timeout_s, connect=_CONNECT_TIMEOUT_S),
                limits=ONE_CONNECTION,
            )
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._pool.close()

    async def complete(
        self, request: CompletionRequest, deadline: Deadline, read: Callable[[ChatReply], T]
    ) -> T:
        """Return the result of `read` for the reply.

        Failed tries are repeated as the settings say, with pauses that grow and are spread out.
        Nothing else repeats a request to a language model after a failure.

        Raises:
            ProviderFailed: the last attempt failed, or no time is left; `read` raises it too.
            ProviderRejected: no retry will help.
            BudgetReached: the request might exceed the budget.
        """
        settings = self._settings
        with self._watch.asking():
            for tried in count(1):
                spent_s = deadline.spent_s
                try:
                    answer = await self._try(request, deadline, read)
                except ProviderFailed as error:
                    failure = error
                else:
                    self._watch.answered()
                    return answer
                # The exponent is bounded as well: the power would overflow after a thousand tries.
                # The random factor keeps requests that failed together from coming back together.
                growth = min(2.0 ** min(tried - 1, 16), _BACKOFF_GROWTH_MAX)
                pause_s = settings.backoff_s * growth * _random.uniform(0.5, 1.0)
                if failure.retry_after_s is not None:
                    pause_s = failure.retry_after_s + pause_s * 0.2
                if tried >= settings.tries_max or pause_s >= deadline.left_s:
                    break
                self._watch.failed(failure, deadline.spent_s - spent_s, pause_s)
                await deadline.sleep(pause_s)
        raise failure

    async def _try(
        self, request: CompletionRequest, deadline: Deadline, read: Callable[[ChatReply], T]
    ) -> T:
        """Send a request once limits and budget have room for it (`Budget.reserve`), as far as the
        model supports it; a late one may be hedged. Raises ProviderFailed also if the server
        answers nobody for the whole of a deadline."""
        expected = request.expected
        dollars = usd(self.endpoint.model, expected, self._prices) or 0.0
        check = partial(self._watch.check, deadline.seconds)
        async with self.limiter.turn(expected.tokens, check) as turn, self._budget.reserve(dollars):
            payload = dict(request.payload)  # without what the model was found not to support
            if "temperature" in self._unsupported:
                payload.pop("temperature", None)
            if "max_tokens" in self._unsupported and "max_tokens" in payload:
                payload["max_completion_tokens"] = payload.pop("max_tokens")
            if request.schema and "json_schema" not in self._unsupported:
                schema = {"name": request.kind, "strict": True, "schema": request.schema}
                payload["response_format"] = {"type": "json_schema", "json_schema": schema}
            elif request.schema and "json_object" not in self._unsupported:
                payload["response_format"] = {"type": "json_object"}
            ask = partial(self._ask, replace(request, payload=payload), read)
            try:
                async with deadline.spending(self._settings.call_timeout_s):
                    return await self._hedging.first(request.kind, turn, ask, deadline.spent_s)
            except TimeoutError as error:
                raise self._timeout() from error
            except ProviderRejected as error:
                name = error.unsupported
                is_format = name == "response_format"
                if name not in payload or (is_format and not request.schema):
                    raise
                if name == "temperature" and name not in self._unsupported:
                    who = self.endpoint.role
                    _log.warning("The %s takes no temperature, so its answers may vary.", who)
                self._unsupported.add(payload[name]["type"] if is_format else name)
        return await self._try(request, deadline, read)

    async def _ask(
        self, request: CompletionRequest, read: Callable[[ChatReply], T], turn: Turn
    ) -> T:
        began = time.perf_counter()
        response = await self._post(request)
        try:
            body = open_response(
                response.status_code, response.headers, response.content, self.endpoint
            )
        except ProviderFailed as error:
            is_stream = "event-stream" in response.headers.get("content-type", "")
            if error.cause == "rate_limited" or error.retry_after_s is not None:
                self.limiter.slow_down(error.retry_after_s, turn.started_s)
            elif is_stream and response.status_code == 200:
                self._count(request.expected, given_up=True)  # billed, though not asked for
            raise
        self.limiter.speed_up()
        usage = Usage.from_response(body.get("usage"))
        if not usage.tokens:  # some servers report none
            usage = replace(request.expected, cost_usd=usage.cost_usd)
        turn.tokens = usage.tokens
        # An invalid reply was paid for too.
        dollars = self._count(usage)
        seconds = time.perf_counter() - began
        return read(ChatReply.of(body, self.endpoint.role, dollars, seconds))

    async def _post(self, request: CompletionRequest) -> httpx.Response:
        # `?` for half of a character, which UTF-8 can't encode.
        content = json.dumps(request.payload, ensure_ascii=False).encode("utf-8", "replace")
        who = f"the {self.endpoint.role}"
        try:
            async with self._pool.client() as client:
                return await client.post(self._url, content=content)
        except asyncio.CancelledError:
            self._count(request.expected, given_up=True)
            raise
        except httpx.RequestError as error:
            if not isinstance(error, _UNSENT):
                # The provider may bill it without reporting a cost.
                self._count(request.expected, given_up=True)
            if isinstance(error, httpx.TimeoutException):
                raise self._timeout() from error
            if isinstance(error, ReplyTooLarge):
                raise ProviderFailed("too_large", f"Too much came from {who}: {error}") from error
            why = str(error) or type(error).__name__
            detail = f"The connection to {who} failed: {why}"
            raise ProviderFailed("connection", detail) from error

    def _count(self, usage: Usage, *, given_up: bool = False) -> float | None:
        """Count a request's cost and return it; None if its price is unknown."""
        cost = Spend.of_call(self.endpoint.model, usage, self._prices, given_up=given_up)
        self.spend += cost
        self._budget.spend += cost
        return None if cost.unpriced else cost.usd

    def _timeout(self) -> ProviderFailed:
        detail = f"The {self.endpoint.role} did not answer before the deadline."
        return ProviderFailed("timeout", detail)
