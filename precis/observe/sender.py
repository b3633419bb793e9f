"""Sending to a service that may be slow or out, without anybody waiting for it."""

import logging
import queue
import threading
import time
from collections.abc import Sequence
from typing import Protocol

import httpx

from precis.llm.redaction import without_credentials
from precis.observe.completions import CompletionRecord

QUEUE_MAX = 4000
"""Completions that may wait for a service; what comes on top is dropped, and counted."""
BATCH_MAX = 50
_TRIES = 3
_PAUSE_S = 0.5
_LOOK_S = 0.05

logger = logging.getLogger(__name__)


class Service(Protocol):
    """A service that completions are reported to."""

    @property
    def name(self) -> str: ...

    def client(self) -> httpx.Client:
        """Its client, with its key and deadlines."""

    def send(self, client: httpx.Client, batch: Sequence[CompletionRecord]) -> None:
        """Report some completions; raises httpx.HTTPError where it fails."""


class Sender:
    """Feeds a service from a thread of its own.

    Trouble is told twice at most: when it begins, and at the end with what was lost.
    """

    def __init__(self, service: Service, queue_max: int = QUEUE_MAX) -> None:
        self._service = service
        self._waiting: queue.Queue[CompletionRecord] = queue.Queue(queue_max)
        self._ending = threading.Event()
        self._warned = False
        self.sent = self.lost = 0
        self._thread = threading.Thread(target=self._run, name=service.name, daemon=True)
        self._thread.start()

    def tell(self, seen: CompletionRecord) -> None:
        """Report a completion sooner or later; returns at once."""
        try:
            self._waiting.put_nowait(seen)
        except queue.Full:
            self.lost += 1
            self._warn("it takes them slower than they come")

    def end(self) -> None:
        """Send what waits, and then no more; returns at once."""
        self._ending.set()

    def wait(self, within_s: float) -> None:
        """Wait for that a bounded time, and say what was lost."""
        self._thread.join(max(0.0, within_s))
        lost = self.lost + (self._waiting.qsize() if self._thread.is_alive() else 0)
        if lost:
            logger.warning("%s has not got %d completions.", self._service.name, lost)

    def _run(self) -> None:
        with self._service.client() as client:
            while batch := self._next():
                self._deliver(client, batch)

    def _next(self) -> list[CompletionRecord]:
        """The next batch; empty when there is none left and none will come."""
        while True:
            # Looked at before the queue: what was told before the end is sent.
            over = self._ending.is_set()
            try:
                batch = [self._waiting.get(timeout=_LOOK_S)]
            except queue.Empty:
                if over:
                    return []
                continue
            while len(batch) < BATCH_MAX and not self._waiting.empty():
                batch.append(self._waiting.get_nowait())
            return batch

    def _deliver(self, client: httpx.Client, batch: Sequence[CompletionRecord]) -> None:
        # A service that is out is asked once for each batch, so that the queue keeps moving.
        tries = 1 if self._warned or self._ending.is_set() else _TRIES
        for tried in range(1, tries + 1):
            try:
                self._service.send(client, batch)
            except httpx.HTTPError as error:
                if tried == tries or not _passes(error):
                    self.lost += len(batch)
                    self._warn(_reason(error))
                    return
                time.sleep(_PAUSE_S * tried)
            else:
                self.sent += len(batch)
                return

    def _warn(self, reason: str) -> None:
        if not self._warned:
            self._warned = True
            logger.warning(
                "%s does not take all completions: %s. The run goes on without.",
                self._service.name,
                reason,
            )


def _passes(error: httpx.HTTPError) -> bool:
    """Whether another try may help."""
    if not isinstance(error, httpx.HTTPStatusError):
        return True
    return error.response.status_code == 429 or error.response.status_code >= 500


def _reason(error: httpx.HTTPError) -> str:
    if isinstance(error, httpx.HTTPStatusError):
        said = without_credentials(error.response.text, error.request)
        body = " ".join(said.split())[:200]
        return f"it answered {error.response.status_code} ({body})"
    return f"{type(error).__name__} {error}".strip()
