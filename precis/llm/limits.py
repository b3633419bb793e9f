"""An account's limits, kept exactly, and adapted to the server's rejections.

A request counts from its start until 60 seconds after its response: whenever in between the server
counts it, no 60 seconds of the server's clock exceed the limit.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from precis.config import RateLimits

_WINDOW_S = 60.0
# A share that shrinks by 15 % with a rejection and grows by 2 % with a success settles where about
# one reply in ten is a rejection, and ignores rarer ones. Concurrent requests often fail together:
# they count as one round, which at most halves the share.
_SLOWER = 0.85
_FASTER = 1.02
_ROUND_MIN = 0.5
_SHARE_MIN = 0.05
# A server may ask for hours (a daily quota). Retrying after a minute confirms that, costs nothing,
# and lets waiting requests fail instead of hang.
_PAUSE_MAX_S = 60.0


def without_quota(in_flight: int) -> RateLimits:
    """Return the limits of the run's own server: only requests in flight."""
    return RateLimits(requests_per_minute=10**9, tokens_per_minute=10**12, in_flight=in_flight)


@dataclass
class Turn:
    """Permission to send one request, its start, and its tokens: an estimate, to be replaced by the
    response's figure."""

    started_s: float
    tokens: int


class Limiter:
    """Grants turns first come, first served, within limits that `slow_down` and `speed_up` move
    below the given ones. `share` is the part of the limits that is used at present, between 0.05
    and 1."""

    def __init__(
        self,
        limits: RateLimits,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._limits = limits
        self._clock = clock
        self._sleep = sleep
        self._queue = asyncio.Lock()
        self._ended = asyncio.Event()
        self._running = 0
        self._running_tokens = 0
        self._past_tokens = 0
        self._past: deque[tuple[float, int]] = deque()
        self.share = 1.0
        self._round_share = _SHARE_MIN
        self._round_began = -math.inf
        self._paused_until = -math.inf

    @asynccontextmanager
    async def turn(
        self, tokens: int, check: Callable[[], None] = lambda: None
    ) -> AsyncIterator[Turn]:
        """Wait for a turn for some tokens, and hold it during the request; `check` may raise, for
        those alone who have waited: the others find out whether the server answers again."""
        # Only the first in line polls the clock; asyncio's lock keeps the others in order.
        has_waited = self._queue.locked()
        async with self._queue:
            if has_waited:
                check()
            while (wait_s := self._wait_s(tokens)) > 0:
                if math.isfinite(wait_s):
                    await self._sleep(wait_s)
                else:
                    self._ended.clear()
                    await self._ended.wait()
                check()
        # No other task has run since: releasing a lock does not yield to the event loop.
        with self._held(tokens) as turn:
            yield turn

    @contextmanager
    def spare_turn(self, tokens: int) -> Iterator[Turn | None]:
        """Yield a turn that no other request waits for, at once and under the same limits, or None.

        There is none while rejections keep the limits below their full share.
        """
        if self.share < 1 or self._queue.locked() or self._wait_s(tokens) > 0:
            yield None
            return
        with self._held(tokens) as turn:
            yield turn

    def slow_down(self, retry_after_s: float | None = None, started_s: float | None = None) -> None:
        """Use less of the limits after a rejection, and send nothing for its Retry-After, at most
        60 s.

        A rejection of a request sent before the last slow-down belongs to that one.
        """
        now = self._clock()
        if started_s is None or started_s >= self._round_began:
            self._round_began = now
            self._round_share = self.share * _ROUND_MIN
        self.share = max(self.share * _SLOWER, self._round_share, _SHARE_MIN)
        if retry_after_s is not None:
            self._paused_until = max(self._paused_until, now + min(retry_after_s, _PAUSE_MAX_S))

    def speed_up(self) -> None:
        """Use more of the limits after a success."""
        self.share = min(1.0, self.share * _FASTER)

    @contextmanager
    def _held(self, tokens: int) -> Iterator[Turn]:
        turn = Turn(self._clock(), tokens)
        self._running += 1
        self._running_tokens += tokens
        try:
            yield turn
        finally:
            self._running -= 1
            self._running_tokens -= tokens
            self._past.append((self._clock() + _WINDOW_S, turn.tokens))
            self._past_tokens += turn.tokens
            self._ended.set()

    def _wait_s(self, tokens: int) -> float:
        """Return the seconds until a request may start; infinite if another must end first."""
        now = self._clock()
        while self._past and self._past[0][0] <= now:
            self._past_tokens -= self._past.popleft()[1]
        if now < self._paused_until:
            return self._paused_until - now
        if self._running >= self._scale(self._limits.in_flight):
            return math.inf
        counted = self._running + len(self._past)
        # A request larger than a whole minute's tokens can only go alone.
        total = self._running_tokens + self._past_tokens + tokens
        if counted == 0 or (
            counted < self._scale(self._limits.requests_per_minute)
            and total <= self._scale(self._limits.tokens_per_minute)
        ):
            return 0.0
        return self._past[0][0] - now if self._past else math.inf

    def _scale(self, limit: int) -> int:
        return max(1, int(limit * self.share))
