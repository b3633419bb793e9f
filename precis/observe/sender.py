"""Sending to a service that may be slow or unreachable, without blocking the run."""

import asyncio
import json
import logging
import queue
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any

import httpx

from precis.llm.connections import BoundedClient
from precis.llm.redaction import without_credentials
from precis.observe.rollouts import RolloutRecord

_QUEUE_MAX = 4000
"""The most rollouts queued for a service; further ones are dropped, and counted."""
CALLS_MAX = 50
"""A batch ends with the rollout that reaches this many calls."""
_TRIES = 3
_PAUSE_S = 0.5
_DEADLINE_S = 10.0
_REPLY_BYTES_MAX = 2**16
"""The most bytes read of a reply, for an error's message."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Service:
    """A service that receives rollouts.

    Attributes:
        key: its secret, redacted in replies.
        options: the options of its client: headers, authorization.
        send: reports some rollouts by `post`; raises httpx.HTTPError on failure.
    """

    name: str
    url: str
    key: str = field(repr=False)
    options: Mapping[str, Any] = field(repr=False)
    send: Callable[[httpx.AsyncClient, Sequence[RolloutRecord]], Awaitable[None]]


async def post(client: httpx.AsyncClient, url: str, body: Any) -> None:
    """Post JSON in ASCII, which can say half a character too, with one deadline for the whole
    exchange. Raises httpx.HTTPError if it failed, was refused, or took too long."""
    try:
        async with asyncio.timeout(_DEADLINE_S):
            headers = {"Content-Type": "application/json"}
            response = await client.post(url, content=json.dumps(body), headers=headers)
    except TimeoutError:
        raise httpx.ReadTimeout(f"no whole answer within {_DEADLINE_S:g} s") from None
    response.raise_for_status()


class Sender:
    """Feeds a service from its own thread.

    Failures are reported at most twice: at the first, and at the end with the loss.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._waiting: queue.SimpleQueue[RolloutRecord | None] = queue.SimpleQueue()
        self._is_ending = False
        self._warned = False
        self._told = self._sent = 0
        # Within the run's context, so that its warnings are in the run's log.
        work = (self._work,)
        self._thread = threading.Thread(target=copy_context().run, args=work, daemon=True)
        self._thread.start()

    def tell(self, seen: RolloutRecord) -> None:
        """Queue a rollout; returns at once."""
        self._told += 1
        if self._waiting.qsize() < _QUEUE_MAX:
            self._waiting.put(seen)
        else:
            self._warn("it takes them slower than they come")

    def end(self) -> None:
        """Send the queue, and then no more; returns at once."""
        self._is_ending = True
        self._waiting.put(None)

    def wait(self, within_s: float) -> None:
        """Wait for that for a bounded time, and report the loss."""
        self._thread.join(max(0.0, within_s))
        lost = self._told - self._sent
        if lost:
            said = "%s did not receive %d of %d rollouts."
            logger.warning(said, self._service.name, lost, self._told)

    def _work(self) -> None:
        try:
            asyncio.run(self._feed())
        except httpx.InvalidURL as error:
            self._warn(f"its address is not valid ({error})")
        except UnicodeEncodeError:
            self._warn("its key holds characters that no key has")

    async def _feed(self) -> None:
        service = self._service
        async with BoundedClient(
            service.url,
            service.key,
            bytes_max=_REPLY_BYTES_MAX,
            timeout=None,  # `post` has a deadline
            **service.options,
        ) as client:
            while seen := self._waiting.get():  # this thread may block
                batch = [seen]
                calls = len(seen.calls)
                while calls < CALLS_MAX and not self._waiting.empty():
                    seen = self._waiting.get()
                    if seen is None:
                        self._waiting.put(None)  # end after this batch
                        break
                    batch.append(seen)
                    calls += len(seen.calls)
                await self._deliver(client, batch)

    async def _deliver(self, client: httpx.AsyncClient, batch: Sequence[RolloutRecord]) -> None:
        # An unreachable service gets one attempt per batch, so that the queue keeps moving.
        tries = 1 if self._warned or self._is_ending else _TRIES
        for tried in range(1, tries + 1):
            try:
                await self._service.send(client, batch)
            except httpx.HTTPError as error:
                passes = True  # a retry may help
                reason = f"{type(error).__name__} {error}".strip()
                if isinstance(error, httpx.HTTPStatusError):
                    status = error.response.status_code
                    passes = status == 429 or status >= 500
                    said = without_credentials(error.response.text, error.request)
                    reason = f"it answered {status} ({' '.join(said.split())[:200]})"
                if tried == tries or not passes:
                    return self._warn(reason)
                await asyncio.sleep(_PAUSE_S * tried)
            else:
                self._sent += len(batch)
                return None

    def _warn(self, reason: str) -> None:
        if not self._warned:
            self._warned = True
            logger.warning(
                "%s does not take all rollouts: %s. The run continues without it.",
                self._service.name,
                reason,
            )
