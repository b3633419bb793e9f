"""All services that receive rollouts, as one."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager

from precis.environment import Variables
from precis.observe.langfuse import langfuse
from precis.observe.openpipe import openpipe
from precis.observe.rollouts import RolloutRecord
from precis.observe.sender import Sender, Service
from precis.observe.weave import weave

FLUSH_S = 10.0
"""How long a run waits at its end for all services together."""


class Observers:
    """The services that receive rollouts; none without a key."""

    def __init__(self, senders: Sequence[Sender]) -> None:
        self._senders = senders

    def rollouts(self, seen: Iterable[RolloutRecord]) -> None:
        """Report rollouts, in microseconds each; never raises for a service's failure."""
        for one in seen:
            for sender in self._senders:
                sender.tell(one)

    def close(self, within_s: float = FLUSH_S) -> None:
        """Send pending rollouts, for a bounded time."""
        deadline = time.monotonic() + within_s
        for sender in self._senders:
            sender.end()
        for sender in self._senders:
            sender.wait(deadline - time.monotonic())


@asynccontextmanager
async def observing(environment: Variables | None = None) -> AsyncIterator[Observers]:
    """Yield observers for the keys that are set, for the block."""
    observers = Observers(list(map(Sender, services(environment or Variables()))))
    try:
        yield observers
    finally:
        await asyncio.to_thread(observers.close)


def services(environment: Variables) -> list[Service]:
    """Return the services whose keys are set."""
    found = (openpipe(environment), langfuse(environment), weave(environment))
    return [service for service in found if service is not None]
