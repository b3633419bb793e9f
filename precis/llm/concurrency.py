"""Running many requests at the same time."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TypeVar

T = TypeVar("T")
Item = TypeVar("Item")


async def run_together(work: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """All results in order; the first error cancels the others and is raised as it is."""
    tasks = [asyncio.ensure_future(start()) for start in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def run_for_each(act: Callable[[Item], Awaitable[T]], items: Iterable[Item]) -> list[T]:
    """The same for each item, all at the same time; see `run_together`."""
    return await run_together([partial(act, item) for item in items])
