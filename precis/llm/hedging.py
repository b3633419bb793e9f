"""Hedging: a second request when a reply is late, so that one slow request does not delay a step.

As in J. Dean and L. A. Barroso, "The Tail at Scale" (2013): few replies are late, and two are
rarely slow together. The second of a verdict's two requests is late when the verdict is.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, TypeVar

from precis.llm.limits import Limiter, Turn

T = TypeVar("T")

_RECENT = 128
_ANSWERED_MIN = 5
_FLOOR_S = 0.25
_LOOK_S = 0.05


class LatencyWindow:
    """The durations of requests of one kind, which define when one is late.

    A request is late when its wait exceeds `quantile` of the recent ones and of those in flight for
    as long: else every request would be late when the first of many return.
    """

    def __init__(self, quantile: float) -> None:
        self._quantile = quantile
        self._waits: deque[float] = deque(maxlen=_RECENT)
        self._under_way: list[float] = []

    @contextmanager
    def under_way(self, began_s: float) -> Iterator[None]:
        """Count a request as in flight within the block."""
        self._under_way.append(began_s)
        try:
            yield
        finally:
            self._under_way.remove(began_s)

    def add_wait(self, seconds: float) -> None:
        """Add the duration of a request with a reply, its own or its hedge's. Leaving hedged ones
        out would make the tail look ever shorter."""
        self._waits.append(seconds)

    def is_late(self, began_s: float, now_s: float) -> bool:
        """Return whether a request in flight since `began_s` is late."""
        waited_s = now_s - began_s
        quicker = sum(wait < waited_s for wait in self._waits)
        as_slow = sum(other <= began_s for other in self._under_way)
        is_known = len(self._waits) >= _ANSWERED_MIN
        return is_known and quicker >= self._quantile * (len(self._waits) + as_slow)


class Hedging:
    """Sends a request again, once, if it is later than a share of recent ones and the limits have a
    spare turn. Nothing is late before `floor_s`."""

    def __init__(self, quantile: float, limiter: Limiter, floor_s: float = _FLOOR_S) -> None:
        self._floor_s = floor_s
        self._quantile = quantile
        self._limiter = limiter
        self._windows = defaultdict[str, LatencyWindow](partial(LatencyWindow, quantile))
        self._ages = LatencyWindow(quantile)

    async def first(
        self,
        kind: str,
        turn: Turn,
        ask: Callable[[Turn], Coroutine[Any, Any, T]],
        spent_s: float = 0.0,
    ) -> T:
        """Return the result of the request or of its hedge, whichever succeeds first; the other has
        then ended. A request is late by its own wait compared with its kind, or by its age compared
        with all: that wait plus its verdict's earlier time."""
        if not self._quantile:
            return await ask(turn)
        clock = asyncio.get_running_loop().time
        own = self._windows[kind]
        began_s = clock()
        verdict_began_s = began_s - spent_s

        def late() -> bool:
            now_s = clock()
            for window, since_s in ((own, began_s), (self._ages, verdict_began_s)):
                if now_s - since_s >= self._floor_s and window.is_late(since_s, now_s):
                    return True
            return False

        tokens = turn.tokens
        tasks = [asyncio.create_task(ask(turn))]
        with (
            own.under_way(began_s),
            self._ages.under_way(verdict_began_s),
            ExitStack() as second_turn,
        ):
            try:
                while not (await asyncio.wait(tasks, timeout=_LOOK_S))[0]:
                    if late():
                        second = second_turn.enter_context(self._limiter.spare_turn(tokens))
                        if second is not None:
                            tasks.append(asyncio.create_task(ask(second)))
                            break
                under_way = set(tasks)
                succeeded: list[asyncio.Task[T]] = []
                while under_way and not succeeded:
                    ended, under_way = await asyncio.wait(
                        under_way, return_when=asyncio.FIRST_COMPLETED
                    )
                    succeeded = [task for task in ended if task.exception() is None]
                # If all have failed, this raises the last error.
                result = (succeeded or list(ended))[0].result()
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        own.add_wait(clock() - began_s)
        self._ages.add_wait(clock() - verdict_began_s)
        return result
