"""The dollars that may still be spent: no request is sent that could lead past them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from precis.errors import BudgetReached
from precis.records.spend import Spend


class Budget:
    """Adds up what is spent, and holds it to a limit.

    Args:
        dollars_max: the limit; None for none.
        judging: what judging has cost so far, in dollars; it counts too.

    Attributes:
        spend: what requests have cost so far, without judging.
    """

    def __init__(
        self, dollars_max: float | None, judging: Callable[[], float] = lambda: 0.0
    ) -> None:
        self._dollars_max = dollars_max
        self._judging = judging
        self.spend = Spend()
        self._reserved: dict[int, float] = {}
        self._freed = asyncio.Event()
        self._next = 0

    @property
    def is_limited(self) -> bool:
        """Return whether there is a limit at all."""
        return self._dollars_max is not None

    @property
    def usd(self) -> float:
        """All that was spent so far."""
        return self.spend.usd + self._judging()

    def add(self, cost: Spend) -> None:
        """Count what a request has cost."""
        self.spend += cost

    @asynccontextmanager
    async def reserve(self, usd: float) -> AsyncIterator[None]:
        """Keep free, while the block lasts, what its requests may cost at most.

        Waits for others to end where that would make room.

        Raises:
            BudgetReached: there is no room, and nothing under way that could make some.
        """
        while not self._has_room(usd):
            if not self._reserved:
                raise BudgetReached(
                    f"${self.usd:.2f} of dollars_max ${self._dollars_max:.2f} are spent, and the "
                    "next request might lead past it."
                )
            self._freed.clear()
            await self._freed.wait()
        self._next += 1
        own = self._next
        self._reserved[own] = usd
        try:
            yield
        finally:
            del self._reserved[own]
            self._freed.set()

    def _has_room(self, usd: float) -> bool:
        if self._dollars_max is None:
            return True
        return self.usd + sum(self._reserved.values()) + usd <= self._dollars_max
