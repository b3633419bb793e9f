"""The dollars that may still be spent: no request is sent that could lead past them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from precis.errors import BudgetReached
from precis.records.rollout import Unscored
from precis.records.spend import Spend
from precis.store.kept import KeptRecords

T = TypeVar("T")


class Budget:
    """Adds up what is spent on requests and on judging, and holds it to a limit; None for none."""

    def __init__(
        self, dollars_max: float | None, judging: Callable[[], float] = lambda: 0.0
    ) -> None:
        self._dollars_max = dollars_max
        self._judging = judging
        self.spend = Spend()
        self._reserved: list[float] = []
        self._freed = asyncio.Event()

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
        """Keep free, while the block lasts, what its requests may cost at most; wait for others to
        end where that would make room.

        Raises:
            BudgetReached: there is no room, and nothing under way that could make some.
        """
        if self._dollars_max is not None:
            while self.usd + sum(self._reserved) + usd > self._dollars_max:
                if not self._reserved:
                    raise BudgetReached(
                        f"${self.usd:.2f} of dollars_max ${self._dollars_max:.2f} are spent, and "
                        "the next request might lead past it."
                    )
                self._freed.clear()
                await self._freed.wait()
        self._reserved.append(usd)
        try:
            yield
        finally:
            self._reserved.remove(usd)
            self._freed.set()


@dataclass(frozen=True)
class PaidOnce:
    """The terms on which a benchmark asks judges: within a budget, and once for a store where one
    keeps it; a dry one asks nobody."""

    kept: KeptRecords | None
    budget: Budget
    dry: bool = False

    async def ask(
        self,
        key: str,
        ask: Callable[[], Awaitable[T | Unscored]],
        usd: Callable[[], float] = lambda: 0.0,
        *,
        encode: Callable[[T], Any],
        decode: Callable[[Any], T],
    ) -> T | Unscored:
        """Return what is kept under a key, or what asking for it gives, or why there is nothing.

        Args:
            usd: what asking costs at most.
            encode: makes a record of what was given; `decode` is its inverse.
        """
        known = await self.kept.get(key, decode) if self.kept else None
        if known is not None:
            return known
        if self.dry:
            return Unscored("not_kept", "No earlier benchmark has asked for this.")
        try:
            async with self.budget.reserve(usd()):
                found = await ask()
        except BudgetReached as error:
            return Unscored("budget", str(error))
        if self.kept and not isinstance(found, Unscored):
            await self.kept.put(key, encode(found))
        return found
