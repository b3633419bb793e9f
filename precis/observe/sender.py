"""Sending to a service that may be slow or out, without anybody waiting for it."""

import asyncio
import logging
import queue
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import httpx

from precis.llm.redaction import without_credentials
from precis.llm.responses import BoundedClient
from precis.observe.rollouts import RolloutRecord

QUEUE_MAX = 4000
"""Rollouts that may wait for a service; what comes on top is dropped, and counted."""
CALLS_MAX = 50
"""Calls of a batch; it ends with the rollout that reaches them."""
_TRIES = 3
_PAUSE_S = 0.5
_DEADLINE_S = 10.0
_REPLY_BYTES_MAX = 2**16
"""Nothing of a reply is read but what an error says."""
_LOOK_S = 0.05

logger = logging.getLogger(__name__)


class Service(Protocol):
    """A service that rollouts are reported to."""

    @property
    def name(self) -> str: ...

    @property
    def url(self) -> str:
        """The service's address."""

    @property
    def key(self) -> str:
        """Its secret, which no reply is to show."""

    @property
    def options(self) -> Mapping[str, Any]:
        """The options that its client is made with: headers, authorization."""

    async def send(self, client: httpx.AsyncClient, batch: Sequence[RolloutRecord]) -> None:
        """Report some rollouts by `post`; raises httpx.HTTPError where it fails."""


async def post(client: httpx.AsyncClient, url: str, body: Any) -> None:
    """Post JSON, within a deadline for the whole of it.

    Raises:
        httpx.HTTPError: it failed, was refused, or took too long.
    """
    try:
        async with asyncio.timeout(_DEADLINE_S):
            response = await client.post(url, json=body)
    except TimeoutError:
        raise httpx.ReadTimeout(f"no whole answer within {_DEADLINE_S:g} s") from None
    response.raise_for_status()


class Sender:
    """Feeds a service from its own thread.

    Trouble is reported twice at most: when it begins, and at the end with what was lost.
    """

    def __init__(self, service: Service, queue_max: int = QUEUE_MAX) -> None:
        self._service = service
        self._waiting: queue.Queue[RolloutRecord] = queue.Queue(queue_max)
        self._ending = threading.Event()
        self._warned = False
        self.sent = self.lost = 0
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._feed()), name=service.name, daemon=True
        )
        self._thread.start()

    def tell(self, seen: RolloutRecord) -> None:
        """Report a rollout sooner or later; returns at once."""
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
            logger.warning("%s has not got %d rollouts.", self._service.name, lost)

    async def _feed(self) -> None:
        service = self._service
        async with BoundedClient(
            service.url, service.key, bytes_max=_REPLY_BYTES_MAX, **service.options
        ) as client:
            while batch := self._next():  # nothing else is done in this thread meanwhile
                await self._deliver(client, batch)

    def _next(self) -> list[RolloutRecord]:
        """Return the next batch; empty when there is none left and none will come."""
        while True:
            # Looked at before the queue: what was told before the end is sent.
            over = self._ending.is_set()
            try:
                batch = [self._waiting.get(timeout=_LOOK_S)]
            except queue.Empty:
                if over:
                    return []
                continue
            while sum(len(one.calls) for one in batch) < CALLS_MAX and not self._waiting.empty():
                batch.append(self._waiting.get_nowait())
            return batch

    async def _deliver(self, client: httpx.AsyncClient, batch: Sequence[RolloutRecord]) -> None:
        # A service that is out is asked once for each batch, so that the queue keeps moving.
        tries = 1 if self._warned or self._ending.is_set() else _TRIES
        for tried in range(1, tries + 1):
            try:
                await self._service.send(client, batch)
            except httpx.HTTPError as error:
                passes = True  # another try may help
                reason = f"{type(error).__name__} {error}".strip()
                if isinstance(error, httpx.HTTPStatusError):
                    status = error.response.status_code
                    passes = status == 429 or status >= 500
                    said = without_credentials(error.response.text, error.request)
                    reason = f"it answered {status} ({' '.join(said.split())[:200]})"
                if tried == tries or not passes:
                    self.lost += len(batch)
                    self._warn(reason)
                    return
                await asyncio.sleep(_PAUSE_S * tried)
            else:
                self.sent += len(batch)
                return

    def _warn(self, reason: str) -> None:
        if not self._warned:
            self._warned = True
            logger.warning(
                "%s does not take all rollouts: %s. The run goes on without.",
                self._service.name,
                reason,
            )
