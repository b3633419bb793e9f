"""The work beside a step: the sampling of the next one, and the commit of the one before."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class WorkBeside(Generic[T]):
    """Holds the work on one step beside that on another; only one step's may be under way.

    Attributes:
        step: the step whose work was not taken or cancelled yet; None without one.
    """

    def __init__(self) -> None:
        self.step: int | None = None
        self._task: asyncio.Task[T] | None = None

    def start(self, step: int, work: Coroutine[Any, Any, T]) -> None:
        """Begin the work on a step; the work before it must have been taken or cancelled."""
        assert self._task is None, f"step {self.step} is under way"
        self.step = step
        self._task = asyncio.create_task(work)

    @property
    def result(self) -> T | None:
        """The result of work that has succeeded, and was not taken yet; None without one."""
        task = self._task
        if task is None or not task.done() or task.cancelled() or task.exception():
            return None
        return task.result()

    async def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the end of the work, if there is any, and return whether it has ended; its
        failure is not raised."""
        if self._task is None:
            return True
        ended, _ = await asyncio.wait({self._task}, timeout=timeout_s)
        return bool(ended)

    async def take(self) -> T | None:
        """Return the result of the work once it has ended, or raise its failure; None without any
        work. Cancelling a waiting caller does not cancel the work."""
        task = self._task
        if task is None:
            return None
        await asyncio.wait({task})
        self.step = self._task = None
        return task.result()

    async def cancel(self) -> None:
        """Give up the work, if there is any."""
        task = self._task
        self.step = self._task = None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
