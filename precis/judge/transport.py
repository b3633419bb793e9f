"""One request to the judge over HTTP, within the limits and before a deadline."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from precis.config import JudgeConfig
from precis.errors import JudgeError
from precis.judge.lanes import Lanes
from precis.judge.limits import Limiter, Turn, limits_of
from precis.judge.protocol import Prompt
from precis.judge.providers import Endpoint
from precis.judge.replies import Failed, SchemaRejected, opened, reply_in, unfenced
from precis.judge.spend import PRICES, Prices, Spend, Usage

# For the limits, until the response tells: most text has more than three characters a token.
_CHARACTERS_A_TOKEN, _TOKENS_AN_ENTRY = 3, 40
# How replies are asked for, from the strictest down; the prompts describe the JSON in any case.
_FORMATS = ("json_schema", "json_object", "plain")


class Deadline:
    """The seconds that a verdict may still spend outside this process.

    Only `spending` and `sleep` count. Waiting for a turn does not: under a small quota
    verdicts are slow, and fail no more often than under a large one.
    """

    def __init__(self, seconds: float) -> None:
        self.left_s = seconds

    @asynccontextmanager
    async def spending(self, at_most_s: float) -> AsyncIterator[None]:
        """Raise TimeoutError when the block takes longer than that, or than what is left."""
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            async with asyncio.timeout(min(at_most_s, self.left_s)):
                yield
        finally:
            self.left_s -= clock() - began

    async def sleep(self, seconds: float) -> None:
        """Wait, and count it."""
        self.left_s -= seconds
        await asyncio.sleep(seconds)


class Transport:
    """Sends prompts to one endpoint, and adds up what that costs.

    Attributes:
        spend: what its calls have cost so far.
    """

    def __init__(self, endpoint: Endpoint, config: JudgeConfig, prices: Prices = PRICES) -> None:
        self.spend = Spend()
        self._endpoint, self._config, self._prices = endpoint, config, prices
        self._limiter = Limiter(limits_of(config))
        self._format = _FORMATS[0 if endpoint.structured else 1]
        self._lanes = Lanes(endpoint, config)

    @property
    def model(self) -> str:
        """The model that is asked."""
        return self._endpoint.model

    @property
    def parameters(self) -> dict[str, Any]:
        """What is sent with every prompt besides the model."""
        effort = self._config.reasoning_effort
        return {"temperature": 0} | ({"reasoning_effort": effort} if effort else {})

    async def send(self, prompt: Prompt, deadline: Deadline) -> str:
        """The text of the judge's reply to a prompt.

        Raises:
            Failed: another try may help.
            JudgeError: no retry will.
        """
        while True:
            async with self._limiter.turn(_tokens_expected(prompt)) as turn:
                # Chosen now: while this one waited, others may have learned what is rejected.
                asked_as = self._format
                response = await self._posted(self._payload(prompt, asked_as), deadline)
                try:
                    reply = self._read(response, turn)
                except SchemaRejected as error:
                    self._ask_more_plainly(asked_as, error)
                    continue
            return reply if asked_as == "json_schema" else unfenced(reply)

    async def close(self) -> None:
        """Close the connections."""
        await self._lanes.close()

    async def _posted(self, payload: dict[str, Any], deadline: Deadline) -> httpx.Response:
        content = json.dumps(payload, ensure_ascii=False).encode()
        try:
            async with deadline.spending(self._config.call_timeout_s):
                return await self._lanes.post(content)
        except (TimeoutError, httpx.TimeoutException) as error:
            raise Failed("timeout", "The judge did not answer before the deadline.") from error
        except httpx.RequestError as error:
            raise Failed("connection", f"The connection to the judge failed: {error!r}") from error

    def _read(self, response: httpx.Response, turn: Turn) -> str:
        try:
            body = opened(response.status_code, response.headers, response.content, self._endpoint)
        except Failed as error:
            if error.cause == "rate_limited" or error.retry_after_s is not None:
                self._limiter.slow_down(error.retry_after_s, turn.started_s)
            raise
        self._limiter.speed_up()
        usage = Usage.from_response(body.get("usage"))
        turn.tokens = usage.prompt_tokens + usage.completion_tokens or turn.tokens
        # A reply that turns out to be worthless was paid for all the same.
        self.spend += Spend.of_call(self._endpoint.model, usage, self._prices)
        return reply_in(body)

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


def _tokens_expected(prompt: Prompt) -> int:
    characters = sum(len(message["content"]) for message in prompt.messages)
    return characters // _CHARACTERS_A_TOKEN + _TOKENS_AN_ENTRY * len(prompt.ids)
