"""The page of a live run, updated beside the run at each change.

A report takes a quarter of a second to draw, and one of a thousand steps more. It is drawn in a
thread, at most every few seconds and for about a hundredth of the time, at least every minute, and
always at the end.
"""

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from precis.llm.silence import silences
from precis.report.training_report import TrainingView, training_report

_PAUSE_S = 1.0
_LOOK_S = 2.0
"""Between two checks whether a server has fallen silent."""
_REPORT_PAUSE_S = 5.0
# So many times as long as the last one took; the first one also imports what draws it.
_REPORT_SHARE = 100
_REPORT_PAUSE_MAX_S = 60.0
# How long a page that can't be written holds up a run's end, and that of one that is soon killed.
_LAST_WORD_S = 60.0
_HASTY_S = 10.0

_log = logging.getLogger(__name__)

Publish = Callable[[TrainingView, str | None], Awaitable[None]]
"""Shows how far a run is; given a report, shows that."""


@asynccontextmanager
async def follow(
    view: Callable[[], TrainingView], publish: Publish
) -> AsyncIterator[Callable[[], None]]:
    """Keep a page up to date while the block lasts; call the yielded function at each change. The
    last update shows everything."""
    news = asyncio.Event()
    closing = asyncio.Event()

    async def keep_up() -> None:
        silent = False
        report_due = time.monotonic() + _REPORT_PAUSE_S
        while True:
            # Until there is a change, or a server falls silent, still is, or answers again.
            while not news.is_set():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(news.wait(), _LOOK_S)
                if silences() or silent:
                    break
            news.clear()
            is_last = closing.is_set()
            seen = view()
            silent = bool(seen.silences)
            await publish(seen, None)
            start = time.monotonic()
            if is_last or start >= report_due:
                try:
                    report = await asyncio.to_thread(training_report, seen)
                except Exception as error:  # an agent's own `show` may raise anything
                    _log.error("The run's report could not be made.", exc_info=error)
                    report_due = math.inf
                else:
                    now = time.monotonic()
                    wanted_s = max(_REPORT_PAUSE_S, _REPORT_SHARE * (now - start))
                    report_due = now + min(_REPORT_PAUSE_MAX_S, wanted_s)
                    await publish(seen, report)
            if is_last:
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(closing.wait(), _PAUSE_S)

    follower = asyncio.create_task(keep_up())
    news.set()
    patience_s = _HASTY_S
    try:
        yield news.set
        patience_s = _LAST_WORD_S
    finally:
        closing.set()
        news.set()
        done, _ = await asyncio.wait([follower], timeout=patience_s)
        if not done:
            follower.cancel()
        elif error := follower.exception():
            _log.error("The run's report could not be made.", exc_info=error)
