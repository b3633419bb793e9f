"""Running many requests at the same time."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


async def run_together(work: Sequence[Callable[[], Awaitable[T]]]) -> list[T]:
    """All results in order; the first error cancels the others and is raised as it is."""
    tasks = [asyncio.ensure_future(start()) for start in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
