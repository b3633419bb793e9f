"""At most one commit is under way, and none is left behind."""

import asyncio

import pytest

from precis.errors import StoreError, TrainerLost
from precis.training.beside import CommitPipeline


class Commit:
    """A commit that ends when it is told to."""

    def __init__(self, error: Exception | None = None) -> None:
        self.done = asyncio.Event()
        self.ended = False
        self._error = error

    async def run(self) -> None:
        await self.done.wait()
        self.ended = True
        if self._error:
            raise self._error


async def test_a_failure_is_raised_to_who_waits_and_told_at_the_end() -> None:
    commits = CommitPipeline()
    commit = Commit(StoreError("The store is out."))
    commits.start(0, commit.run())
    commit.done.set()
    with pytest.raises(StoreError):
        await commits.wait()
    told: list[str] = []
    await commits.finish(1.0, told.append)
    assert told == ["The commit of step 1 failed: The store is out."]


async def test_who_is_cancelled_while_it_waits_leaves_the_commit_to_end() -> None:
    commits = CommitPipeline()
    commit = Commit()
    commits.start(0, commit.run())
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
    commit = Commit()
    commits.start(4, commit.run())
    told: list[str] = []
    await commits.finish(0.01, told.append)
    assert "The commit of step 5 took longer" in told[0]
    assert not commit.ended


@pytest.mark.parametrize("error", [None, TrainerLost("It is gone.")])
async def test_the_commit_of_a_lost_trainer_is_abandoned(error: Exception | None) -> None:
    commits = CommitPipeline()
    commit = Commit(error)
    commits.start(0, commit.run())
    commit.done.set()
    await commits.abandon()
    assert commits.step is None


async def test_what_else_went_wrong_with_an_abandoned_commit_is_raised() -> None:
    commits = CommitPipeline()
    commit = Commit(StoreError("The store is out."))
    commits.start(0, commit.run())
    commit.done.set()
    with pytest.raises(StoreError):
        await commits.abandon()
    await commits.wait()
