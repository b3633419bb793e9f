"""Asking a second time when a reply is late, so that one slow request holds up no whole step.

These are hedged requests as in J. Dean and L. A. Barroso, "The Tail at Scale" (2013): few replies
are late, and two are rarely slow together. Of a verdict's two requests the second is late when the
verdict is.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
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
    """The durations of requests of one kind, which tell when one of them is late.

    It is late when it has been waited for longer than `quantile` of the recent ones and of those
    under way for as long: else every request would be late when the first of many come back.
    """

    def __init__(self, quantile: float) -> None:
        self._quantile = quantile
        self._waits: deque[float] = deque(maxlen=_RECENT)
        self._under_way: list[float] = []

    @contextmanager
    def under_way(self, began_s: float) -> Iterator[None]:
        """Count a request as under way for as long as the block runs."""
        self._under_way.append(began_s)
        try:
            yield
        finally:
            self._under_way.remove(began_s)

    def add_wait(self, seconds: float) -> None:
        """Count a request that has a reply, its own or its hedge's, with the length it came to.
        Leaving hedged ones out would make the tail look ever shorter."""
        self._waits.append(seconds)

    def is_late(self, began_s: float, now_s: float) -> bool:
        """Return whether a request that is under way since `began_s` is late."""
        waited_s = now_s - began_s
        quicker = sum(wait < waited_s for wait in self._waits)
        as_slow = sum(other <= began_s for other in self._under_way)
        is_known = len(self._waits) >= _ANSWERED_MIN
        return is_known and quicker >= self._quantile * (len(self._waits) + as_slow)


class Hedging:
    """Asks again, once, for what is later than a share of recent requests, as long as the limits
    have a turn to spare. Nothing is late before `floor_s`."""

    def __init__(
        self,
        quantile: float,
        limiter: Limiter,
        *,
        floor_s: float = _FLOOR_S,
        look_s: float = _LOOK_S,
    ) -> None:
        self._quantile = quantile
        self._limiter = limiter
        self._floor_s = floor_s
        self._look_s = look_s
        self._windows = defaultdict[str, LatencyWindow](partial(LatencyWindow, quantile))
        self._ages = LatencyWindow(quantile)

    async def first(
        self,
        kind: str,
        turn: Turn,
        ask: Callable[[Turn], Coroutine[Any, Any, T]],
        spent_s: float = 0.0,
    ) -> T:
        """Return the result of asking, or of asking again, whichever succeeds first; the other has
        ended then. A request is late beside others of its kind by its own wait, or beside all by
        its age: that wait and what its verdict took before."""
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
                while not (await asyncio.wait(tasks, timeout=self._look_s))[0]:
                    if late():
                        second = second_turn.enter_context(self._limiter.spare_turn(tokens))
                        if second is not None:
                            tasks.append(asyncio.create_task(ask(second)))
                            break
                result = await _first_result(tasks)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        own.add_wait(clock() - began_s)
        self._ages.add_wait(clock() - verdict_began_s)
        return result


async def _first_result(tasks: Sequence[asyncio.Task[T]]) -> T:
    """Return the first result there is; where all fail, the last error."""
    under_way = set(tasks)
    while True:
        ended, under_way = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
        succeeded = [task for task in ended if task.exception() is None]
        if succeeded or not under_way:
            return (succeeded or list(ended))[0].result()
