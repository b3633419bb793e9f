"""A rollout's clock, which pauses while an environment waits for its judge."""

import asyncio
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

_clock: ContextVar["Clock"] = ContextVar("clock")


class Clock:
    """Counts down a rollout's seconds; `expired` is done when none are left."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._loop = asyncio.get_running_loop()
        self.expired: asyncio.Future[None] = self._loop.create_future()
        self._left = seconds
        self._stops = 0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count within the block; `clock_stopped` within it, also in its tasks, pauses this
        clock."""
        token = _clock.set(self)
        self._start()
        try:
            yield
        finally:
            self._timer.cancel()
            _clock.reset(token)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Pause within the block; overlapping blocks pause until the last ends."""
        if not self._stops:
            self._timer.cancel()
            self._left -= self._loop.time() - self._since
        self._stops += 1
        try:
            yield
        finally:
            self._stops -= 1
            if not self._stops:
                self._start()

    def _start(self) -> None:
        self._since = self._loop.time()
        self._timer = self._loop.call_later(self._left, self._expire)

    def _expire(self) -> None:
        if not self.expired.done():
            self.expired.set_result(None)


def clock_stopped() -> AbstractContextManager[None]:
    """Exclude a block's time from the rollout's clock; no-op outside a rollout."""
    clock = _clock.get(None)
    return clock.stopped() if clock else nullcontext()
