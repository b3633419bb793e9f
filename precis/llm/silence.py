"""Warnings of servers that do not answer: after ten seconds, once a minute, and on recovery."""

import asyncio
import logging
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from precis.errors import ProviderFailed, without_controls
from precis.llm.providers import Endpoint
from precis.llm.redaction import Redactor

_SAID_AFTER_S = 10.0
_SAID_AGAIN_S = 60.0
_DETAIL_MAX = 300
_log = logging.getLogger(__name__)


class SilenceWatch:
    """Watches the attempts of one client: a server is silent from the beginning of the first that
    fails until one succeeds, or nobody asks any more."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._asking = 0
        self._since: float | None = None
        self._answered_at = 0.0
        self._said_at: float | None = None
        self._next_try = 0.0
        self._failure = ProviderFailed("timeout", "")
        _watches.add(self)

    @property
    def seconds(self) -> float:
        """The duration of the silence; 0 if the server answers."""
        return 0.0 if self._since is None else _now() - self._since

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Count a caller that waits for an answer within the block."""
        self._asking += 1
        try:
            yield
        finally:
            self._asking -= 1
            if not self._asking:  # callers report the failure themselves
                self._since = self._said_at = None

    def failed(self, failure: ProviderFailed, asked_s: float, pause_s: float) -> None:
        """Record an attempt that failed after `asked_s` at the server, and the pause before the
        next one; warn if the silence lasts longer than ten seconds by then."""
        now = _now()
        if self._since is None:
            self._since = max(now - asked_s, self._answered_at)
        self._next_try = now + pause_s
        self._failure = failure
        is_due = self._said_at is None or now - self._said_at >= _SAID_AGAIN_S
        if is_due and self._next_try - self._since >= _SAID_AFTER_S:
            self._said_at = now
            _log.warning("%s", self.describe())

    def answered(self) -> None:
        """Record an answer, which ends the silence."""
        if self._said_at is not None:
            _log.warning("%s", self._sentence(f"answers again, after {self.seconds:.0f} s."))
        self._since = self._said_at = None
        self._answered_at = _now()

    def check(self, seconds: float) -> None:
        """Raise the last failure, as one without hope, where the server is silent for so long: with
        a daily quota that is used up, all who wait would each be told so in turn, for hours."""
        if self.seconds >= seconds:
            raise ProviderFailed(self._failure.cause, self._failure.what, seconds)

    def describe(self) -> str:
        """Describe the silent server: since when, why, and when the next attempt is."""
        again_s = self._next_try - _now()
        soon = f"in {again_s:.0f} s" if again_s >= 1 else "now"
        cause = " ".join(str(self._failure).split())[:_DETAIL_MAX].rstrip(".")
        return self._sentence(
            f"has answered no request for {self.seconds:.0f} s: {cause}. It is asked again {soon}."
        )

    def _sentence(self, predicate: str) -> str:
        url = httpx.URL(self._endpoint.base_url).copy_with(userinfo=b"")
        who = self._endpoint.role
        if self._endpoint.model.rpartition("/")[2] not in who:  # as in a contender's
            who += f" '{self._endpoint.model}'"
        redactor = Redactor(self._endpoint.api_key)
        return without_controls(redactor.clean_text(f"The {who} at {url} {predicate}"))


_watches: "weakref.WeakSet[SilenceWatch]" = weakref.WeakSet()
"""The watches of all clients of this process."""


def silences() -> list[str]:
    """Describe each server that has not answered for ten seconds."""
    return sorted(watch.describe() for watch in _watches if watch.seconds >= _SAID_AFTER_S)


def _now() -> float:
    return asyncio.get_running_loop().time()
