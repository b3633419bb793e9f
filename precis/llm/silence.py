"""Warnings of servers that do not answer: after ten seconds, once a minute, and on recovery.

A server without requests, since the account's limits leave no turn, is not silent.
"""

import asyncio
import logging
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from precis.errors import ProviderFailed, without_controls
from precis.llm.limits import Limiter
from precis.llm.providers import Endpoint
from precis.llm.redaction import Redactor

_SAID_AFTER_S = 10.0
_SAID_AGAIN_S = 60.0
_DETAIL_MAX = 300
_log = logging.getLogger(__name__)


class SilenceWatch:
    """Watches the attempts of one client, whose limiter may delay the next one. `is_long` says
    whether a silence has lasted for so long that it was said."""

    def __init__(self, endpoint: Endpoint, limiter: Limiter) -> None:
        self._endpoint = endpoint
        self._limiter = limiter
        self._asking = 0
        self._sending = 0
        self._next_tries: list[float] = []
        self._since: float | None = None
        self._cause = ""
        self.is_long = False
        self._alarm: asyncio.TimerHandle | None = None
        _watches.add(self)

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Count a caller that waits for an answer within the block."""
        self._asking += 1
        try:
            yield
        finally:
            self._asking -= 1
            if not self._asking:  # callers report the failure themselves
                self._end()

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Count a request at the server within the block."""
        self._sending += 1
        if self._since is not None and self._alarm is None:  # delayed by limits until now
            self._say_in(_SAID_AFTER_S)
        try:
            yield
        finally:
            self._sending -= 1

    @contextmanager
    def pausing(self, seconds: float) -> Iterator[None]:
        """Count a pause before the next attempt within the block."""
        at = _now() + seconds
        self._next_tries.append(at)
        try:
            yield
        finally:
            self._next_tries.remove(at)

    def failed(self, failure: ProviderFailed) -> None:
        """Record a failed attempt; the first one begins the silence."""
        self._cause = str(failure)
        if self._since is None:
            self._since = _now()
            self._say_in(_SAID_AFTER_S)
        elif self._alarm is None:  # delayed by limits when the warning was due
            self._say()

    def answered(self) -> None:
        """Record an answer, which ends the silence."""
        if self.is_long:
            _log.warning("%s", self._clean(f"{self._who} answers again, after {self._lasted} s."))
        self._end()

    def describe(self) -> str:
        """Describe the silent server: since when, why, and when the next attempt is."""
        now = _now()
        again_s = max(min(self._next_tries, default=now) - now, self._limiter.pause_s)
        if self._is_held_back:
            soon = "as soon as its limits allow"
        else:
            soon = f"in {again_s:.0f} s" if again_s >= 1 else "now"
        cause = " ".join(self._cause.split())[:_DETAIL_MAX].rstrip(".")
        return self._clean(
            f"{self._who} has answered no request for {self._lasted} s: {cause}. It is asked "
            f"again {soon}."
        )

    @property
    def _who(self) -> str:
        url = httpx.URL(self._endpoint.base_url).copy_with(userinfo=b"")
        who = self._endpoint.role
        if self._endpoint.model.rpartition("/")[2] not in who:  # as in a contender's
            who += f" '{self._endpoint.model}'"
        return f"The {who} at {url}"

    @property
    def _lasted(self) -> str:
        return f"{_now() - (self._since or _now()):.0f}"

    def _clean(self, sentence: str) -> str:
        return without_controls(Redactor(self._endpoint.api_key).clean_text(sentence))

    def _say_in(self, seconds: float) -> None:
        self._alarm = asyncio.get_running_loop().call_later(seconds, self._say_unless_held_back)

    @property
    def _is_held_back(self) -> bool:
        """True if only the limits prevent requests."""
        return not (self._sending or self._next_tries or self._limiter.pause_s)

    def _say_unless_held_back(self) -> None:
        self._alarm = None
        if not self._is_held_back:
            self._say()

    def _say(self) -> None:
        self.is_long = True
        _log.warning("%s", self.describe())
        self._say_in(_SAID_AGAIN_S)

    def _end(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = None
        self._since = None
        self.is_long = False


_watches: "weakref.WeakSet[SilenceWatch]" = weakref.WeakSet()
"""The watches of all clients of this process."""


def silences() -> list[str]:
    """Describe each server that has not answered for ten seconds."""
    return sorted(watch.describe() for watch in _watches if watch.is_long)


def _now() -> float:
    return asyncio.get_running_loop().time()
