"""One request to the judge over HTTP, within the limits and before a deadline."""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

import httpx

from precis.config import JudgeConfig
from precis.errors import JudgeError
from precis.judge.protocol import BadReply, Prompt
from precis.llm.hedging import Hedging
from precis.llm.limits import Limiter, Turn, limits_of
from precis.llm.pool import ConnectionPool
from precis.llm.providers import Endpoint
from precis.llm.replies import Failed, SchemaRejected, opened, reply_in, unfenced
from precis.llm.responses import ReplyTooLarge
from precis.llm.retry import Deadline
from precis.records.spend import Prices, Spend, Usage, prices_of

# Until the response tells: most text has more than three characters a token.
_CHARACTERS_A_TOKEN = 3
_TOKENS_AN_ENTRY = 40
# How replies are asked for, from the strictest down; the prompts describe the JSON in any case.
_FORMATS = ("json_schema", "json_object", "plain")
_LATE = ("timeout", "The judge did not answer before the deadline.")

T = TypeVar("T")
Parse = Callable[[str, Sequence[str]], list[T]]
"""Reads a reply that is to have these entries; raises BadReply where it has not."""


@dataclass(frozen=True)
class Reply(Generic[T]):
    """A valid reply: the judge's own text, and what it says."""

    text: str
    found: list[T]


class Transport:
    """Sends prompts to one endpoint, and adds up what that costs.

    Attributes:
        spend: what its calls have cost so far.
        limiter: gives each request its turn.
    """

    def __init__(
        self, endpoint: Endpoint, config: JudgeConfig, prices: Prices | None = None
    ) -> None:
        self.spend = Spend()
        self._endpoint = endpoint
        self._config = config
        self._prices = prices_of(config) if prices is None else prices
        self.limiter = Limiter(limits_of(config))
        # A judge on this machine has one CPU to share: asking it twice makes both slower.
        quantile = 0.0 if config.provider == "lexical" else config.hedge_quantile
        self._hedging = Hedging(quantile, self.limiter)
        self._format = _FORMATS[0 if endpoint.structured else 1]
        self._lanes = ConnectionPool(endpoint, config.call_timeout_s)

    @property
    def model(self) -> str:
        """The model that is asked."""
        return self._endpoint.model

    @property
    def parameters(self) -> dict[str, Any]:
        """What is sent with every prompt besides the model."""
        effort = self._config.reasoning_effort
        return {"temperature": 0} | ({"reasoning_effort": effort} if effort else {})

    async def send(self, prompt: Prompt, parse: Parse[T], deadline: Deadline) -> Reply[T]:
        """The judge's reply to a prompt, and what `parse` makes of it.

        Raises:
            Failed: another try may help.
            JudgeError: no retry will.
        """
        while True:
            async with self.limiter.turn(_expected(prompt).tokens) as turn:
                # Chosen now: while this one waited, others may have learned what is rejected.
                asked_as = self._format
                ask = partial(self._asked, prompt, parse, asked_as)
                try:
                    async with deadline.spending(self._config.call_timeout_s):
                        return await self._hedging.first(prompt.name, turn, ask)
                except TimeoutError as error:
                    raise Failed(*_LATE) from error
                except SchemaRejected as error:
                    self._ask_more_plainly(asked_as, error)

    async def close(self) -> None:
        """Close the connections."""
        await self._lanes.close()

    async def _asked(self, prompt: Prompt, parse: Parse[T], asked_as: str, turn: Turn) -> Reply[T]:
        """Send a prompt once."""
        text = self._read(await self._posted(prompt, asked_as), turn)
        text = text if asked_as == "json_schema" else unfenced(text)
        try:
            return Reply(text, parse(text, prompt.ids))
        except BadReply as error:
            raise Failed("bad_verdict", str(error)) from error

    async def _posted(self, prompt: Prompt, asked_as: str) -> httpx.Response:
        content = json.dumps(self._payload(prompt, asked_as), ensure_ascii=False).encode()
        try:
            return await self._lanes.post(content)
        except asyncio.CancelledError:
            self._count(_expected(prompt), given_up=True)
            raise
        except httpx.TimeoutException as error:
            raise Failed(*_LATE) from error
        except ReplyTooLarge as error:
            self._count(_expected(prompt), given_up=True)
            raise Failed("too_large", f"The judge sent too much: {error}") from error
        except httpx.RequestError as error:
            raise Failed("connection", f"The connection to the judge failed: {error!r}") from error

    def _read(self, response: httpx.Response, turn: Turn) -> str:
        with self.limiter.heeding(turn):
            body = opened(response.status_code, response.headers, response.content, self._endpoint)
        usage = Usage.from_response(body.get("usage"))
        turn.tokens = usage.tokens or turn.tokens
        # A reply that turns out to be worthless was paid for all the same.
        self._count(usage)
        return reply_in(body)

    def _count(self, usage: Usage, *, given_up: bool = False) -> None:
        self.spend += Spend.of_call(self.model, usage, self._prices, given_up=given_up)

    def _payload(self, prompt: Prompt, asked_as: str) -> dict[str, Any]:
        payload = {"model": self._endpoint.model, "messages": prompt.messages, **self.parameters}
        if asked_as == "json_schema":
            schema = {"name": prompt.name, "strict": True, "schema": prompt.schema}
            payload["response_format"] = {"type": "json_schema", "json_schema": schema}
        elif asked_as == "json_object":
            payload["response_format"] = {"type": "json_object"}
        return payload

    def _ask_more_plainly(self, asked_as: str, error: SchemaRejected) -> None:
        """Step down once for all requests that were rejected for the same format."""
        if asked_as == _FORMATS[-1]:
            raise JudgeError(
                f"The judge at {self._endpoint.base_url} rejects requests to "
                f"'{self._endpoint.model}' in every form ({error}): choose another model."
            ) from error
        if asked_as == self._format:
            self._format = _FORMATS[_FORMATS.index(asked_as) + 1]


def _expected(prompt: Prompt) -> Usage:
    characters = sum(len(message["content"]) for message in prompt.messages)
    return Usage(characters // _CHARACTERS_A_TOKEN, _TOKENS_AN_ENTRY * len(prompt.ids))
