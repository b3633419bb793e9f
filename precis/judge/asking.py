"""One question to the judge, and its valid reply: from the cache, or from the judge."""

import asyncio
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from precis.config import JudgeConfig
from precis.judge.cache import ReplyCache
from precis.judge.protocol import PROTOCOL_VERSION, BadReply, Prompt
from precis.judge.transport import Parse, Transport
from precis.llm.retry import Deadline, Retrier
from precis.records.spend import Spend

T = TypeVar("T")


class CachedJudge:
    """Asks the judge only what the cache has no valid reply to, and keeps what it says."""

    def __init__(self, transport: Transport, config: JudgeConfig, cache: ReplyCache | None) -> None:
        self._transport = transport
        self._tries = Retrier(config)
        self._cache = cache
        self._cached = 0
        self._under_way: dict[str, asyncio.Event] = {}

    @property
    def spend(self) -> Spend:
        """What all calls have cost so far, and how many replies came from the cache instead."""
        return self._transport.spend + Spend(cached=self._cached)

    async def ask(self, prompt: Prompt, parse: Parse[T], deadline: Deadline) -> list[T]:
        """What `parse` makes of the judge's reply to a prompt.

        The same prompt at the same time (two summaries may lead to the same answers, and so to
        the same grading) is asked once, where there is a cache to share the reply.

        Raises:
            Failed: the last try failed too, or the deadline leaves no time for another.
            JudgeError: no retry will help.
        """
        key = self._key(prompt)
        while (kept := self._kept(key, prompt, parse)) is None and key in self._under_way:
            await self._under_way[key].wait()
        if kept is not None:
            return kept
        with self._asking(key):
            return await self._asked(key, prompt, parse, deadline)

    async def _asked(
        self, key: str, prompt: Prompt, parse: Parse[T], deadline: Deadline
    ) -> list[T]:
        send = partial(self._transport.send, prompt, parse, deadline)
        reply = await self._tries.until_answered(send, deadline)
        if self._cache is not None:
            self._cache.put(key, reply.text)
        return reply.found

    @contextmanager
    def _asking(self, key: str) -> Iterator[None]:
        """Let others with the same prompt wait while the block lasts."""
        if self._cache is None:
            yield
            return
        ended = self._under_way[key] = asyncio.Event()
        try:
            yield
        finally:
            del self._under_way[key]
            ended.set()

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
