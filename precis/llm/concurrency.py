"""Concurrent execution of requests."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")
Item = TypeVar("Item")


async def run_for_each(act: Callable[[Item], Awaitable[T]], items: Iterable[Item]) -> list[T]:
    """Act on all items concurrently, and return the results in order; the first error cancels the
    others and is raised unchanged."""
    tasks = [asyncio.ensure_future(act(item)) for item in items]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
