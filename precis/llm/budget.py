"""A budget in dollars: no request is sent that could exceed it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from precis.errors import BudgetReached
from precis.records.rollout import Unscored
from precis.records.spend import Spend
from precis.store.kept import KeptRecords
from precis.text import write_dollars

T = TypeVar("T")


class Budget:
    """Limits the dollars for requests, which clients add to `spend`, and for judging; None for no
    limit."""

    def __init__(self, dollars_max: float | None, judging: Callable[[], Spend] = Spend) -> None:
        self.dollars_max = dollars_max
        self.judging = judging
        self.spend = Spend()
        self._reserved: list[float] = []
        self._freed = asyncio.Event()

    @property
    def usd(self) -> float:
        return self.spend.usd + self.judging().usd

    @asynccontextmanager
    async def reserve(self, usd: float) -> AsyncIterator[None]:
        """Reserve the most that the block's requests may cost; if necessary, wait for others to
        end. Raises BudgetReached if there is no room, and no request in flight that could make
        some."""
        if self.dollars_max is not None:
            while self.usd + sum(self._reserved) + usd > self.dollars_max:
                if not self._reserved:
                    raise BudgetReached(
                        f"{write_dollars(self.usd)} of dollars_max "
                        f"{write_dollars(self.dollars_max)} are spent, and the next request might "
                        "lead past it."
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
    """Access to models that cost money: within a budget, and once per store, if one keeps replies;
    a dry one, of a benchmark, sends no requests."""

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
        """Return the value kept under a key, or a new one, or why there is none.

        Args:
            usd: the most that asking costs.
            encode: converts a value to a record; `decode` is its inverse.
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
