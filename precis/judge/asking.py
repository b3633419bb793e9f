"""One question to the judge, until it has a valid reply: from the cache, or by tries."""

import hashlib
import json
import random
from collections.abc import Callable, Sequence
from itertools import count
from typing import TypeVar

from precis.config import JudgeConfig
from precis.judge.cache import ReplyCache
from precis.judge.protocol import PROTOCOL_VERSION, BadReply, Prompt
from precis.judge.replies import Failed
from precis.judge.spend import Spend
from precis.judge.transport import Deadline, Transport

T = TypeVar("T")
Parse = Callable[[str, Sequence[str]], list[T]]

_BACKOFF_GROWTH_MAX = 60


class Asker:
    """Sends a prompt as often as it takes, and may take. All retries of the judge live here."""

    def __init__(self, transport: Transport, config: JudgeConfig, cache: ReplyCache | None) -> None:
        self._transport, self._config, self._cache = transport, config, cache
        # Its own generator: the global one belongs to whoever seeded it.
        self._random = random.Random()
        self._cached = 0

    @property
    def spend(self) -> Spend:
        """What all calls have cost so far, and how many replies came from the cache instead."""
        return self._transport.spend + Spend(cached=self._cached)

    async def ask(self, prompt: Prompt, parse: "Parse[T]", deadline: Deadline) -> list[T]:
        """What `parse` makes of the judge's reply to a prompt.

        Raises:
            Failed: the last try failed too, or the deadline leaves no time for another.
            JudgeError: no retry will help.
        """
        key = self._key(prompt)
        if (kept := self._kept(key, prompt, parse)) is not None:
            return kept
        for tried in count(1):
            try:
                reply = await self._transport.send(prompt, deadline)
                found = parse(reply, prompt.ids)
                break
            except Failed as error:
                failure = error
            except BadReply as error:
                failure = Failed("bad_verdict", str(error))
            pause_s = self._pause_s(tried, failure)
            if tried >= self._config.tries_max or pause_s >= deadline.left_s:
                raise failure
            await deadline.sleep(pause_s)
        if self._cache is not None:
            self._cache.put(key, reply)
        return found

    def _pause_s(self, tried: int, failure: Failed) -> float:
        growth = min(2.0 ** min(tried - 1, 16), _BACKOFF_GROWTH_MAX)
        pause_s = self._config.backoff_s * growth * self._random.uniform(0.5, 1.0)
        if failure.retry_after_s is None:
            return pause_s
        # Spread out, so that not all that were rejected together come back together.
        return failure.retry_after_s + pause_s * 0.2

    def _kept(self, key: str, prompt: Prompt, parse: "Parse[T]") -> list[T] | None:
        reply = None if self._cache is None else self._cache.get(key)
        if reply is None:
            return None
        try:
            found = parse(reply, prompt.ids)
        except BadReply:  # not a reply that this program kept: ask again
            return None
        self._cached += 1
        return found

    def _key(self, prompt: Prompt) -> str:
        parts = [
            self._transport.model,
            prompt.messages,
            self._transport.parameters,
            prompt.schema,
            PROTOCOL_VERSION,
        ]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
