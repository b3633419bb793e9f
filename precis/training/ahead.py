"""The sampling of the next step, which continues while a step is trained."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from precis.records.spend import Spend
from precis.rollouts.filter import StepRollouts


class SamplingAhead:
    """Holds the one step that may be sampled before its turn.

    `start` begins it, `take` waits for its rollouts and hands them out, once; a failure is raised
    by `take`, in who would have sampled the step otherwise. `wait` only sees it end. `cancel` gives
    it up: who resumes the run samples the step again.
    """

    def __init__(self) -> None:
        self._step: int | None = None
        self._task: asyncio.Task[StepRollouts] | None = None

    @property
    def spend(self) -> Spend:
        """The cost of the step that is sampled and not yet taken."""
        task = self._task
        if task is None or not task.done() or task.cancelled() or task.exception():
            return Spend()
        return task.result().spend

    def start(self, step: int, sampling: Coroutine[Any, Any, StepRollouts]) -> None:
        """Begin to sample a step; the one before must have been taken or given up."""
        assert self._task is None, "a step is being sampled"
        self._step = step
        self._task = asyncio.create_task(sampling)

    async def wait(self) -> None:
        """Wait until the sampling has ended, if one is under way, whatever came of it."""
        if self._task is not None:
            await asyncio.wait({self._task})

    async def take(self, step: int) -> StepRollouts | None:
        """Return the rollouts of a step once they are there; None where it was not sampled ahead.

        Who is cancelled while it waits cancels the sampling.

        Raises:
            PrecisError: the sampling failed; the step is to be sampled again.
        """
        task = self._task
        if task is None:
            return None
        assert self._step == step, f"step {self._step} was sampled ahead, not {step}"
        self._clear()
        return await task

    async def cancel(self) -> None:
        """Give up what is sampled or being sampled, if anything is."""
        task = self._task
        self._clear()
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _clear(self) -> None:
        self._step = None
        self._task = None
