"""A test that hangs where nothing limits its wait is interrupted, and fails."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import pytest

from tests.services.patience import LONG_S, SHORT_S, Patience, give_patience

_LOOK_S = 5.0
_SHORT_S = 5 * SHORT_S
"""Of a test, or of its fixtures: some wait several times, or compute for a minute on idle cores."""
_LONG_S = 4 * LONG_S


@contextmanager
def watched(item: pytest.Item) -> Iterator[None]:
    """Give a test its patience, and interrupt it where it does not end within the block."""
    folders = item.path.relative_to(item.config.rootpath).parts
    is_long = item.get_closest_marker("long") is not None or "gpu" in folders
    give_patience(LONG_S if is_long else SHORT_S)
    with interrupted_after(_LONG_S if is_long else _SHORT_S, item.name):
        yield


@contextmanager
def interrupted_after(seconds: float, name: str, look_s: float = _LOOK_S) -> Iterator[None]:
    """Fail what is at work within the block after so many seconds of an idle machine."""
    patience = Patience(f"The end of {name}", seconds=seconds)

    def look(_signal: int, _frame: FrameType | None) -> None:
        try:
            patience.check()
        except AssertionError as error:
            pytest.fail(str(error))

    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, look_s, look_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
