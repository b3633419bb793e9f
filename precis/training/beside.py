"""The work beside a step: the sampling of the next one, and the commit of the one before."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from precis.errors import TrainerLost
from precis.records.spend import Spend
from precis.rollouts.filter import StepRollouts

T = TypeVar("T")


class _OneAtATime(Generic[T]):
    """Holds the work on one step; only one step's may be under way.

    Attributes:
        step: the step whose work is not awaited yet; None without one.
    """

    def __init__(self) -> None:
        self.step: int | None = None
        self._task: asyncio.Task[T] | None = None

    def start(self, step: int, work: Coroutine[Any, Any, T]) -> None:
        """Begin the work on a step; the work before it must have been awaited or cancelled."""
        assert self._task is None, f"step {self.step} is under way"
        self.step = step
        self._task = asyncio.create_task(work)

    def _release(self) -> None:
        self.step = None
        self._task = None


class SamplingAhead(_OneAtATime[StepRollouts]):
    """Holds the one step that may be sampled before its turn, while another is trained."""

    @property
    def spend(self) -> Spend:
        """The cost of the step that is sampled and not yet taken."""
        task = self._task
        if task is None or not task.done() or task.cancelled() or task.exception():
            return Spend()
        return task.result().spend

    async def wait(self) -> None:
        """Wait until the sampling has ended, if one is under way; its failure is not raised."""
        if self._task is not None:
            await asyncio.wait({self._task})

    async def take(self, step: int) -> StepRollouts | None:
        """Return a step's rollouts once they are complete; None where it was not sampled ahead.

        Cancelling a waiting caller cancels the sampling. Raises PrecisError if the sampling failed;
        the step is to be sampled again.
        """
        task = self._task
        if task is None:
            return None
        assert self.step == step, f"step {self.step} was sampled ahead, not {step}"
        self._release()
        return await task

    async def cancel(self) -> None:
        """Give up the sampling, if there is one; a resumed run samples the step again."""
        task = self._task
        self._release()
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


class CommitPipeline(_OneAtATime[None]):
    """Holds the one commit that may be under way, beside the sampling of the next step."""

    async def wait(self) -> None:
        """Wait for the commit that is under way, if one is, before the next step is trained.

        Cancelling a waiting caller does not cancel the commit. Raises StoreError if it failed;
        where the checkpoint is kept is in the message.
        """
        if self._task is not None:
            await asyncio.shield(self._task)
            self._release()

    async def abandon(self) -> None:
        """Wait for the end of a lost trainer's commit; the store then shows whether it succeeded. A
        StoreError says that it failed for another reason than the trainer's loss."""
        task = self._task
        if task is None:
            return
        await asyncio.wait({task})
        self._release()
        error = task.exception()
        if error and not isinstance(error, TrainerLost):
            raise error

    async def finish(self, grace_s: float, warn: Callable[[str], None]) -> None:
        """Let the commit of a run that ends succeed, or give it up after so many seconds; raise
        nothing, but warn of one that did not succeed, and keep its `step`."""
        task = self._task
        if task is None or self.step is None:
            return
        checkpoint = self.step + 1
        await asyncio.wait({task}, timeout=grace_s)
        if not task.done():
            task.cancel()
            warn(
                f"The commit of step {checkpoint} took longer than {grace_s:.0f} s and was given "
                "up; when the run is started again it continues from there."
            )
        elif error := task.exception():
            warn(f"The commit of step {checkpoint}, or its log, failed: {error}")
        else:
            self._release()
