"""One question to the judge, and its valid reply: from the cache, or from the judge."""

import hashlib
import json
from functools import partial
from typing import TypeVar

from precis.config import JudgeConfig
from precis.judge.cache import ReplyCache
from precis.judge.protocol import PROTOCOL_VERSION, BadReply, Prompt
from precis.judge.spend import Spend
from precis.judge.transport import Parse, Transport
from precis.judge.tries import Deadline, Tries

T = TypeVar("T")


class Asker:
    """Asks the judge only what the cache has no valid reply to, and keeps what it says."""

    def __init__(self, transport: Transport, config: JudgeConfig, cache: ReplyCache | None) -> None:
        self._transport, self._tries, self._cache = transport, Tries(config), cache
        self._cached = 0

    @property
    def spend(self) -> Spend:
        """What all calls have cost so far, and how many replies came from the cache instead."""
        return self._transport.spend + Spend(cached=self._cached)

    async def ask(self, prompt: Prompt, parse: Parse[T], deadline: Deadline) -> list[T]:
        """What `parse` makes of the judge's reply to a prompt.

        Raises:
            Failed: the last try failed too, or the deadline leaves no time for another.
            JudgeError: no retry will help.
        """
        key = self._key(prompt)
        if (kept := self._kept(key, prompt, parse)) is not None:
            return kept
        send = partial(self._transport.send, prompt, parse, deadline)
        reply = await self._tries.until_answered(send, deadline)
        if self._cache is not None:
            self._cache.put(key, reply.text)
        return reply.found

    def _kept(self, key: str, prompt: Prompt, parse: Parse[T]) -> list[T] | None:
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
