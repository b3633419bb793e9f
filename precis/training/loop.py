"""The loop: sample → score → filter → train → commit → log; validate now and then.

The loop neither retries its stages nor shows them: they are values. In a test they are the plain
functions of `stages`, `resume` and `warm_start`; a Prefect flow passes the same functions as tasks
(`tasks/training.py`).
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    asynccontextmanager,
    nullcontext,
    suppress,
)
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, Protocol, TypeVar

from precis.errors import StoreError, TrainerLost
from precis.observe.observers import observing
from precis.observe.wandb import wandb_log
from precis.processes.signals import cancel_on_sigterm
from precis.records.ledger import StepRecord, Validation
from precis.records.rollout import Scenario
from precis.rollouts.filter import StepRollouts
from precis.training.resume import resume
from precis.training.run import Run, work_folder
from precis.training.stages import (
    commit_step,
    delete_old_checkpoints,
    describe_step,
    gather_rollouts,
    keep_here,
    log_step,
    train_step,
)
from precis.training.validation import log_validation, validate
from precis.training.warm_start import (
    BATCH,
    DemonstrationJournal,
    collect_demonstrations,
    imitate,
    measure_groups,
)

COMMIT_GRACE_S = 20.0
"""How long a run that has to end waits for its commit; Prefect kills it after 30 s."""

_log = logging.getLogger(__name__)

T = TypeVar("T")


class AroundJudge(Protocol):
    """Does work that needs the judge, and decides what happens if the judge is unavailable."""

    async def __call__(self, run: Run, work: Callable[[], Awaitable[T]]) -> T: ...


async def fail_without_judge(run: Run, work: Callable[[], Awaitable[T]]) -> T:
    """Do the work; an unavailable judge ends the run."""
    return await work()


async def show_nobody(name: str, message: str) -> None:
    """Do not show the run's state."""


@dataclass(frozen=True)
class Stages:
    """The stages of a run: by default the plain functions, without retries or a place in a UI.

    Each default says what its stage does.

    Attributes:
        around_judge: runs work that needs the judge, and may pause the run.
        show_state: shows the name of the run's state, and a message.
        watch: follows the run while the block lasts; yields a function to call at each change.
    """

    resume: Callable[[Run], Awaitable[None]] = resume
    gather: Callable[[Run, int], Coroutine[Any, Any, StepRollouts]] = gather_rollouts
    train: Callable[[Run, StepRecord, StepRollouts], Awaitable[StepRecord]] = train_step
    commit: Callable[[Run, StepRecord], Awaitable[None]] = commit_step
    log: Callable[[Run, int, StepRollouts | None], Awaitable[None]] = log_step
    validate: Callable[[Run, int], Awaitable[Validation]] = validate
    log_validation: Callable[[Run, Validation], Awaitable[None]] = log_validation
    measure: Callable[[Run, int], Awaitable[None]] = measure_groups
    collect: Callable[[Run, DemonstrationJournal, Sequence[Scenario]], Awaitable[None]] = (
        collect_demonstrations
    )
    imitate: Callable[[Run, DemonstrationJournal], Awaitable[StepRecord]] = imitate
    around_judge: AroundJudge = fail_without_judge
    show_state: Callable[[str, str], Awaitable[None]] = show_nobody
    watch: Callable[[Run], AbstractAsyncContextManager[Callable[[], None]]] = lambda run: (
        nullcontext(lambda: None)
    )


class TrainingLoop:
    """A run, from its last committed step to its last: `await resume()`, then `await train()`."""

    def __init__(self, run: Run, stages: Stages | None = None) -> None:
        self.run = run
        self.stages = stages or Stages()
        self._tell: Callable[[], None] = lambda: None

    async def resume(self) -> None:
        """Continue from the last trained step, whichever of ledger, store and trainer has it."""
        async with self.recovering():
            await self.stages.resume(self.run)

    async def train(self) -> None:
        """Take step after step until the last one is committed and its adapter is validated."""
        run = self.run
        files = work_folder(run.config) / "wandb"
        # Left in the other order: the last commit ends first, and can still be shown and logged.
        async with (
            wandb_log(run.name, run.ledger.run_id, run.config.model_dump(), files) as run.wandb,
            observing() as run.observers,
            self.stages.watch(run) as self._tell,
            self._finish_on_exit(),
        ):
            if run.wandb:
                # `resume` has committed these before there was a W&B run to tell.
                for step in range(run.found_at, run.ledger.next_step):
                    run.wandb.log(step, run.metrics_of(step))
            while not run.is_done:
                async with self.recovering():
                    await self.go_on()

    async def go_on(self) -> None:
        """Do what comes next: a validation where one is due, and a step of training."""
        run = self.run
        await self._stop_at_limits()
        if run.validation_is_due:
            # A commit and a validation both write the ledger; and nothing else may use policy and
            # judge meanwhile, or their time and dollars would count for the validation.
            await self._wait_for_commit()
            with run.stopwatch.phase("gather"):
                await run.ahead.wait()
            validate = partial(self.stages.validate, run, run.next_step)
            validation = await self.stages.around_judge(run, validate)
            await self.stages.log_validation(run, validation)
            await delete_old_checkpoints(run)
        if run.variance_is_due:
            await self._wait_for_commit()
            measure = partial(self.stages.measure, run, run.next_step)
            await self.stages.around_judge(run, measure)
        if run.warm_start is not None and run.next_step == 0:
            await self.take_warm_start()
        elif run.next_step < run.config.steps and not run.is_done:
            await self.take_step(run.next_step)

    async def take_step(self, step: int) -> None:
        """Take one step; it is committed and logged while the next one samples. With
        `off_policy_steps` the next one samples during this one's training, too."""
        run = self.run
        rollouts = await self.stages.around_judge(run, partial(self._sample, step))
        await self._wait_for_commit()
        record = describe_step(run, step, rollouts)
        # Only now, so that its spending is booked with the next step. Beyond a limit there is none.
        is_last = step + 1 >= run.config.steps or run.limit_reached() is not None
        if run.config.off_policy_steps and not is_last:
            run.ahead.start(step + 1, self.stages.gather(run, step + 1))
        record = await self.stages.train(run, record, rollouts)
        # The next step's time begins here; the commit times itself.
        run.stopwatch.reset()
        run.commits.start(step, self._commit_and_log(record, rollouts))

    async def _sample(self, step: int) -> StepRollouts:
        """Return the step's scored rollouts; sample them unless that was done ahead."""
        with self.run.stopwatch.phase("gather"):
            ahead = await self.run.ahead.take()
            return await self.stages.gather(self.run, step) if ahead is None else ahead

    async def take_warm_start(self) -> None:
        """Take step 0 by imitation; its demonstrations are collected and kept batch by batch."""
        run = self.run
        assert run.warm_start is not None
        # A file has a rollout of each already.
        shown = () if run.warm_start.given else run.warm_start.scenarios
        journal = await asyncio.to_thread(DemonstrationJournal, run.store, run.name, run.identity)
        with run.stopwatch.phase("collect"):
            while batch := journal.missing(shown)[:BATCH]:
                await self._stop_at_limits()
                collect = partial(self.stages.collect, run, journal, batch)
                await self.stages.around_judge(run, collect)
        record = await self.stages.imitate(run, journal)
        run.stopwatch.reset()
        run.commits.start(record.step, self._commit_and_log(record, None))

    async def _commit_and_log(self, record: StepRecord, rollouts: StepRollouts | None) -> None:
        """Commit a trained step, and then show it; a warm start has no rollouts."""
        run = self.run
        try:
            await self.stages.commit(run, record)
        except StoreError as error:
            raise await keep_here(run, record, error) from error
        await self.stages.log(run, record.step, rollouts)
        if rollouts is not None:
            run.seen = replace(run.seen, rollouts=tuple(chain.from_iterable(rollouts.rows)))
        _log.info("%s", run.view.progress)
        self._tell()

    async def _wait_for_commit(self) -> None:
        """Wait for the commit of the step before; the time counts for the present step."""
        with self.run.stopwatch.phase("wait"):
            await self.run.commits.take()

    async def _stop_at_limits(self) -> None:
        """Stop here if the run has spent its budget, or held its machine for as long as it may."""
        limit = self.run.limit_reached()
        if limit is not None:
            await self.run.ahead.cancel()
            await self._wait_for_commit()
            # Evaluated again, since a finished commit has moved the ledger.
            raise self.run.limit_reached() or limit

    @asynccontextmanager
    async def _finish_on_exit(self) -> AsyncIterator[None]:
        """Finish the commit that is under way when the block ends, or give it up in time; then book
        the cost that no step will have.

        SIGTERM interrupts the block, and is passed on once the commit has ended. Sampling ahead is
        cancelled at once: a resumed run samples the step again.
        """
        run = self.run
        with cancel_on_sigterm():
            try:
                yield
                await self._wait_for_commit()
            finally:
                await run.ahead.cancel()
                step = run.next_step
                if await run.commits.wait(COMMIT_GRACE_S):
                    try:
                        await run.commits.take()
                    except Exception as error:  # must not hide how the run ended
                        _log.warning("The commit of step %d, or its log, failed: %s", step, error)
                else:
                    await run.commits.cancel()
                    _log.warning(
                        "The commit of step %d took longer than %.0f s and was given up; when the "
                        "run is started again it continues from there.",
                        step,
                        COMMIT_GRACE_S,
                    )
                await run.book_rest(run.unbooked)

    @asynccontextmanager
    async def recovering(self) -> AsyncIterator[None]:
        """Start a trainer again that is lost in the block; the caller repeats the block. A
        TrainerLost says that it was lost `recoveries_max` times since a step was last committed, a
        BudgetReached that what is left pays for no hour of a rented machine."""
        run = self.run

        async def restore() -> str:
            await self.stages.resume(run)
            run.described = None  # its step is committed by now, or is sampled again
            return f"Continues from step {run.next_step}."

        try:
            yield
        except TrainerLost as error:
            await run.ahead.cancel()
            with suppress(TrainerLost):  # the store then shows whether it succeeded
                await run.commits.take()
            if run.config.cluster.where == "sky":
                limit = run.limit_reached(run.trainer.meter.price.usd_per_hour)
                if limit is not None:
                    raise limit from error
            await run.trainer.recover(error, self.stages.show_state, restore)
