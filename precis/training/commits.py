"""The commit of a step, beside the sampling of the next: never more than one at a time."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from precis.errors import TrainerLost


class CommitPipeline:
    """Holds the one commit that may be under way.

    `start` begins it, `wait` sees it end; a failure is raised by `wait`, in who trains the next
    step. `abandon` is for a trainer that was lost, `finish` for a run that ends.
    """

    def __init__(self) -> None:
        self._step: int | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def step(self) -> int | None:
        """The step whose commit has not been awaited yet; None without one."""
        return self._step

    def start(self, step: int, commit: Coroutine[Any, Any, None]) -> None:
        """Begin to commit a step; the one before must have been waited for."""
        assert self._task is None, "a commit is under way"
        self._step = step
        self._task = asyncio.create_task(commit)

    async def wait(self) -> None:
        """Wait for the commit that is under way, if one is.

        Whoever is cancelled while it waits does not cancel the commit.

        Raises:
            StoreError: it failed; where the checkpoint is kept is in the message.
        """
        if self._task is not None:
            await asyncio.shield(self._task)
            self._clear()

    async def abandon(self) -> None:
        """See the commit end that a lost trainer was at; what came of it, the store will say. A
        StoreError says that it failed for another reason than the trainer's loss."""
        task = self._task
        if task is None:
            return
        await asyncio.wait({task})
        self._clear()
        error = task.exception()
        if error and not isinstance(error, TrainerLost):
            raise error

    async def finish(self, grace_s: float, warn: Callable[[str], None]) -> None:
        """Let the commit end, or give it up after so many seconds; warn of one that did not
        succeed, and raise nothing."""
        task = self._task
        if task is None or self._step is None:
            return
        checkpoint = self._step + 1
        await asyncio.wait({task}, timeout=grace_s)
        if not task.done():
            task.cancel()
            warn(
                f"The commit of step {checkpoint} took longer than {grace_s:.0f} s and was given "
                "up; when the run is started again it goes on from there."
            )
        elif error := task.exception():
            warn(f"The commit of step {checkpoint} failed: {error}")

    def _clear(self) -> None:
        self._step = None
        self._task = None
