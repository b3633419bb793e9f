"""Which scenarios a step takes: a pure function of the run's seed and the step."""

import random
from collections.abc import Sequence
from typing import Protocol, TypeVar


class Named(Protocol):
    """Something with an id of its own."""

    @property
    def id(self) -> str: ...


T = TypeVar("T", bound=Named)


def draw_batch(drawn: Sequence[T], seed: int, step: int, size: int) -> tuple[T, ...]:
    """Return the scenarios of a step. Each epoch goes through all of them in its own order."""
    orders: dict[int, list[int]] = {}
    batch = []
    for position in range(step * size, (step + 1) * size):
        epoch, place = divmod(position, len(drawn))
        if epoch not in orders:
            orders[epoch] = list(range(len(drawn)))
            random.Random(f"{seed}/{epoch}").shuffle(orders[epoch])
        batch.append(drawn[orders[epoch][place]])
    return tuple(batch)


def draw_spares(drawn: Sequence[T], seed: int, step: int, size: int, count: int) -> tuple[T, ...]:
    """Return up to so many scenarios beside a step's batch.

    They are drawn from all others, and not from the next step's, which would see them twice.
    """
    if not count:
        return ()
    batch = {one.id for one in draw_batch(drawn, seed, step, size)}
    others = [one for one in drawn if one.id not in batch]
    return tuple(random.Random(f"{seed}/spares/{step}").sample(others, min(count, len(others))))
