"""Trying again: the one place where requests to a language model are repeated after a failure."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Protocol, TypeVar

from precis.errors import ProviderFailed
from precis.llm.silence import SilenceWatch

OWN_TRIES_MAX = 3
OWN_BACKOFF_S = 0.3
"""The pause between tries of a server that the run itself has started: its loss is to be noticed
soon."""

T = TypeVar("T")

_BACKOFF_GROWTH_MAX = 60
_random = random.Random()  # the global one belongs to whoever seeded it


class RetryPolicy(Protocol):
    """The settings that say how often to try, and how long to pause."""

    @property
    def tries_max(self) -> int: ...

    @property
    def backoff_s(self) -> float: ...


class Deadline:
    """The seconds that a verdict or a summary may still spend outside this process.

    Only `spending` and `sleep` count. Waiting for a turn does not: under a small quota
    verdicts are slow, and fail no more often than under a large one.
    """

    def __init__(self, seconds: float) -> None:
        self.left_s = seconds
        self._seconds = seconds

    @property
    def spent_s(self) -> float:
        """The seconds spent so far, without those of a `spending` that still lasts."""
        return self._seconds - self.left_s

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


async def until_answered(
    ask: Callable[[], Awaitable[T]], settings: RetryPolicy, watch: SilenceWatch, deadline: Deadline
) -> T:
    """Return the result of the first try that succeeds, with pauses that grow and are spread out.

    Raises:
        ProviderFailed: the last try failed too, or the deadline leaves no time for another.
    """
    with watch.asking():
        for tried in count(1):
            try:
                answer = await ask()
            except ProviderFailed as error:
                failure = error
            else:
                watch.answered()
                return answer
            watch.failed(failure)
            # The exponent is bounded as well, or the power would overflow after a thousand tries.
            # The random factor keeps requests that failed together from coming back together.
            growth = min(2.0 ** min(tried - 1, 16), _BACKOFF_GROWTH_MAX)
            pause_s = settings.backoff_s * growth * _random.uniform(0.5, 1.0)
            if failure.retry_after_s is not None:
                pause_s = failure.retry_after_s + pause_s * 0.2
            if tried >= settings.tries_max or pause_s >= deadline.left_s:
                break
            with watch.pausing(pause_s):
                await deadline.sleep(pause_s)
    raise failure
