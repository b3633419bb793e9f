"""The time that a request to a language model may take with its tries, and the pauses between."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

OWN_CALL_TIMEOUT_S = 1200.0
"""For one request to the run's own server; a rollout's own deadline is mostly shorter."""
OWN_TRIES_MAX = 3
OWN_BACKOFF_S = 0.3
"""The pause between attempts at the run's own server, whose loss must be noticed soon."""


class Deadline:
    """The time limit of a verdict or a summary outside this process.

    Only `spending` and `sleep` count. Waiting for a turn does not: a small quota makes verdicts
    slow, but not fail.
    """

    def __init__(self, seconds: float) -> None:
        self.left_s = seconds
        self.seconds = seconds

    @property
    def spent_s(self) -> float:
        """The seconds spent so far, without those of an active `spending`."""
        return self.seconds - self.left_s

    @asynccontextmanager
    async def spending(self, at_most_s: float) -> AsyncIterator[None]:
        """Raise TimeoutError when the block takes longer than that, or than the time left."""
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            async with asyncio.timeout(min(at_most_s, self.left_s)):
                yield
        finally:
            self.left_s -= clock() - began

    async def sleep(self, seconds: float) -> None:
        self.left_s -= seconds
        await asyncio.sleep(seconds)
