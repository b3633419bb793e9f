"""At most one step is sampled ahead, and one commit under way: taken once, or given up."""

import asyncio

import pytest

from precis.errors import JudgeUnavailable, StoreError, TrainerLost
from precis.records.spend import Spend
from precis.rollouts.filter import StepRollouts
from precis.training.beside import CommitPipeline, SamplingAhead


class Work:
    """A sampling or a commit that ends when it is told to."""

    def __init__(self, error: Exception | None = None) -> None:
        self.done = asyncio.Event()
        self.ended = self.cancelled = False
        self.rollouts = StepRollouts([], adapter=3, seconds=1.0, spend=Spend(calls=5))
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


async def test_a_step_goes_on_while_others_work_and_is_taken_once() -> None:
    ahead = SamplingAhead()
    sampling = Work()
    ahead.start(4, sampling.sample())
    taking = asyncio.create_task(ahead.take(4))
    await asyncio.sleep(0)
    assert not taking.done()
    sampling.done.set()
    assert await taking is sampling.rollouts
    assert await ahead.take(4) is None
    ahead.start(5, sampling.sample())
    assert ahead.spend == Spend()
    await ahead.wait()
    assert ahead.spend == Spend(calls=5), "what it cost is known from its end until it is taken"
    await ahead.take(5)
    assert ahead.spend == Spend()


async def test_a_failure_is_raised_to_who_takes_it_and_the_step_can_be_sampled_again() -> None:
    ahead = SamplingAhead()
    sampling = Work(JudgeUnavailable("It is out."))
    ahead.start(4, sampling.sample())
    sampling.done.set()
    await ahead.wait()
    assert ahead.spend == Spend()
    with pytest.raises(JudgeUnavailable):
        await ahead.take(4)
    assert await ahead.take(4) is None


@pytest.mark.parametrize("is_done", [False, True])
async def test_what_is_given_up_does_not_go_on(is_done: bool) -> None:
    ahead = SamplingAhead()
    sampling = Work(JudgeUnavailable("It is out."))
    ahead.start(4, sampling.sample())
    if is_done:
        sampling.done.set()
    await asyncio.sleep(0)
    await ahead.cancel()
    assert sampling.cancelled is not is_done
    assert await ahead.take(4) is None


async def test_who_is_cancelled_while_it_waits_cancels_the_sampling() -> None:
    ahead = SamplingAhead()
    sampling = Work()
    ahead.start(4, sampling.sample())
    taking = asyncio.create_task(ahead.take(4))
    await asyncio.sleep(0)
    taking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await taking
    assert sampling.cancelled


async def test_a_failure_is_raised_to_who_waits_and_told_at_the_end() -> None:
    commits = CommitPipeline()
    commit = Work(StoreError("The store is out."))
    commits.start(0, commit.commit())
    commit.done.set()
    with pytest.raises(StoreError):
        await commits.wait()
    told: list[str] = []
    await commits.finish(1.0, told.append)
    assert told == ["The commit of step 1 failed: The store is out."]


async def test_who_is_cancelled_while_it_waits_leaves_the_commit_to_end() -> None:
    commits = CommitPipeline()
    commit = Work()
    commits.start(0, commit.commit())
    waiting = asyncio.create_task(commits.wait())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    commit.done.set()
    told: list[str] = []
    await commits.finish(5.0, told.append)
    assert commit.ended
    assert not told


async def test_a_commit_that_takes_too_long_is_given_up_at_the_end() -> None:
    commits = CommitPipeline()
    commit = Work()
    commits.start(4, commit.commit())
    told: list[str] = []
    await commits.finish(0.01, told.append)
    assert "The commit of step 5 took longer" in told[0]
    assert not commit.ended


@pytest.mark.parametrize("error", [None, TrainerLost("It is gone.")])
async def test_the_commit_of_a_lost_trainer_is_abandoned(error: Exception | None) -> None:
    commits = CommitPipeline()
    commit = Work(error)
    commits.start(0, commit.commit())
    commit.done.set()
    await commits.abandon()
    assert commits.step is None


async def test_what_else_went_wrong_with_an_abandoned_commit_is_raised() -> None:
    commits = CommitPipeline()
    commit = Work(StoreError("The store is out."))
    commits.start(0, commit.commit())
    commit.done.set()
    with pytest.raises(StoreError):
        await commits.abandon()
    await commits.wait()
