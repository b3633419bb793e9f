"""At most one step is sampled ahead, and one commit under way: taken once, or given up."""

import asyncio
from contextlib import nullcontext

import pytest

from precis.config import RolloutsConfig
from precis.errors import JudgeUnavailable, StoreError, TrainerLost
from precis.records.spend import Spend
from precis.rollouts.filter import StepRollouts
from precis.training.beside import CommitPipeline, SamplingAhead


class Work:
    """A sampling or a commit that ends when it is told to."""

    def __init__(self, error: Exception | None = None) -> None:
        self.done = asyncio.Event()
        self.ended = self.cancelled = False
        self.rollouts = StepRollouts(
            [], RolloutsConfig(), adapter=3, seconds=1.0, spend=Spend(calls=5)
        )
        self._error = error

    async def sample(self) -> StepRollouts:
        try:
            await self.done.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        self.ended = True
        if self._error:
            raise self._error
        return self.rollouts

    async def commit(self) -> None:
        await self.sample()


def sampling(error: Exception | None = None) -> tuple[SamplingAhead, Work]:
    """Step 4, which is being sampled."""
    ahead, work = SamplingAhead(), Work(error)
    ahead.start(4, work.sample())
    return ahead, work


def committing(error: Exception | None = None) -> tuple[CommitPipeline, Work]:
    """The checkpoint of step 5, which is being committed."""
    commits, work = CommitPipeline(), Work(error)
    commits.start(4, work.commit())
    return commits, work


async def test_a_step_goes_on_while_others_work_and_is_taken_once() -> None:
    ahead, work = sampling()
    taking = asyncio.create_task(ahead.take(4))
    await asyncio.sleep(0)
    assert not taking.done()
    work.done.set()
    assert await taking is work.rollouts
    assert await ahead.take(4) is None
    ahead.start(5, work.sample())
    assert ahead.spend == Spend()
    await ahead.wait()
    assert ahead.spend == Spend(calls=5), "what it cost is known from its end until it is taken"
    await ahead.take(5)
    assert ahead.spend == Spend()


async def test_a_failure_is_raised_to_who_takes_it_and_the_step_can_be_sampled_again() -> None:
    ahead, work = sampling(JudgeUnavailable("It is out."))
    work.done.set()
    await ahead.wait()
    assert ahead.spend == Spend()
    with pytest.raises(JudgeUnavailable):
        await ahead.take(4)
    assert await ahead.take(4) is None


@pytest.mark.parametrize("is_done", [False, True])
async def test_what_is_given_up_does_not_go_on(is_done: bool) -> None:
    ahead, work = sampling(JudgeUnavailable("It is out."))
    if is_done:
        work.done.set()
    await asyncio.sleep(0)
    await ahead.cancel()
    assert work.cancelled is not is_done
    assert await ahead.take(4) is None


async def test_who_is_cancelled_while_it_waits_cancels_the_sampling_and_no_commit() -> None:
    ahead, sampled = sampling()
    commits, committed = committing()
    taking = asyncio.create_task(ahead.take(4))
    waiting = asyncio.create_task(commits.wait())
    await asyncio.sleep(0)
    for task in (taking, waiting):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert sampled.cancelled
    committed.done.set()
    told: list[str] = []
    await commits.finish(5.0, told.append)
    assert committed.ended
    assert commits.step is None
    assert not told


async def test_a_failure_is_raised_to_who_waits_and_told_at_the_end() -> None:
    commits, work = committing(StoreError("The store is out."))
    work.done.set()
    with pytest.raises(StoreError):
        await commits.wait()
    told: list[str] = []
    await commits.finish(1.0, told.append)
    assert commits.step == 4
    assert told == ["The commit of step 5, or its log, failed: The store is out."]


async def test_a_commit_that_takes_too_long_is_given_up_at_the_end() -> None:
    commits, work = committing()
    told: list[str] = []
    await commits.finish(0.01, told.append)
    assert commits.step == 4
    assert "The commit of step 5 took longer" in told[0]
    assert not work.ended


@pytest.mark.parametrize("error", [None, TrainerLost("It is gone."), StoreError("It is out.")])
async def test_the_commit_of_a_lost_trainer_is_abandoned_and_what_else_failed_is_raised(
    error: Exception | None,
) -> None:
    commits, work = committing(error)
    work.done.set()
    with pytest.raises(StoreError) if isinstance(error, StoreError) else nullcontext():
        await commits.abandon()
    assert commits.step is None
