"""A model that has the other seats of a game. What it says is read by the policy, and not learned:
its requests don't go through the recorder."""

from collections.abc import Mapping, Sequence
from typing import Any

from precis.config import RateLimits
from precis.environments.clock import clock_stopped
from precis.errors import PrecisError
from precis.llm.client import ChatClient, CompletionRequest, OwnServer
from precis.llm.providers import endpoint_of
from precis.llm.retry import Deadline
from precis.llm.tokens import estimate_tokens_with_margin
from precis.records.spend import PRICES, Spend, Usage
from precis.settings.environment import OpponentSettings

_TRIES_MAX = 4


class Opponent:
    """Asks a model for moves; see `endpoint_of` for its key."""

    def __init__(self, settings: OpponentSettings, keys: Mapping[str, str]) -> None:
        self._settings = settings
        role = f"opponent {settings.model!r}"
        self._endpoint = endpoint_of(settings, keys, role, "OPPONENT_API_KEY", keyless=True)
        self._client: ChatClient | None = None

    @property
    def spend(self) -> Spend:
        """The cost of its moves so far."""
        return self._client.spend if self._client else Spend()

    async def answer(self, messages: Sequence[Mapping[str, Any]], seed: int) -> str:
        """Return its answer to a conversation.

        Raises:
            ProviderFailed: it gave none.
            ProviderRejected: it refuses the key, the model or the request as such.
        """
        settings = self._settings
        payload = {
            "model": settings.model,
            "messages": list(messages),
            "temperature": settings.temperature,
            "max_tokens": settings.tokens_max,
            "seed": seed,
        }
        characters = sum(len(str(message["content"])) for message in messages)
        expected = Usage(estimate_tokens_with_margin(characters), settings.tokens_max)
        deadline = Deadline(2 * settings.call_timeout_s)
        assert self._client is not None
        request = CompletionRequest(payload, expected)
        with clock_stopped():  # a slow opponent costs the policy no time
            return await self._client.complete(request, deadline, lambda reply: reply.text)

    async def checks(self) -> Sequence[str]:
        """Ask it for a word; returns what is wrong, in a sentence."""
        try:
            await self.answer([{"role": "user", "content": "Answer with the word: ready."}], 1)
        except PrecisError as error:
            return [f"The opponent {self._settings.model!r} does not answer: {error}"]
        return ()

    async def open(self) -> None:
        """Make its client."""
        limits = RateLimits(in_flight=self._settings.in_flight)
        held_to = OwnServer(limits, self._settings.call_timeout_s, _TRIES_MAX)
        self._client = ChatClient(self._endpoint, held_to, prices=PRICES)

    async def close(self) -> None:
        """Close its connections."""
        if self._client is not None:
            await self._client.close()
