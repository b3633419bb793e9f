"""At most one step is sampled ahead, and one commit under way: taken once, or given up."""

import asyncio
import logging
from contextlib import nullcontext
from pathlib import Path

import pytest

from precis.errors import JudgeUnavailable, StoreError, TrainerLost
from precis.training import loop
from precis.training.beside import WorkBeside
from precis.training.loop import TrainingLoop
from tests.support.in_process import Life
from tests.support.ledgers import record


class Work:
    """Work that ends when it is told to."""

    def __init__(self, error: Exception | None = None) -> None:
        self.done = asyncio.Event()
        self.cancelled = False
        self._error = error

    async def do(self) -> str:
        try:
            await self.done.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        if self._error:
            raise self._error
        return "result"


def started(error: Exception | None = None) -> tuple[WorkBeside[str], Work]:
    """The work on step 4."""
    beside: WorkBeside[str] = WorkBeside()
    work = Work(error)
    beside.start(4, work.do())
    return beside, work


async def test_a_step_goes_on_while_others_work_and_is_taken_once() -> None:
    beside, work = started()
    waiting = asyncio.create_task(beside.take())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not await beside.wait(0.0)
    assert not work.cancelled
    work.done.set()
    assert await beside.wait()
    assert (beside.step, beside.result) == (4, "result")
    assert await beside.take() == "result"
    assert (beside.step, beside.result) == (None, None)
    assert await beside.take() is None


async def test_a_failure_is_raised_to_who_takes_it_and_the_step_can_be_begun_again() -> None:
    beside, work = started(JudgeUnavailable("It is out."))
    work.done.set()
    await beside.wait()
    assert beside.result is None
    with pytest.raises(JudgeUnavailable):
        await beside.take()
    beside.start(4, Work().do())
    await beside.cancel()


@pytest.mark.parametrize("is_done", [False, True])
async def test_what_is_given_up_does_not_go_on(is_done: bool) -> None:
    beside, work = started(JudgeUnavailable("It is out."))
    if is_done:
        work.done.set()
    await asyncio.sleep(0)
    await beside.cancel()
    assert work.cancelled is not is_done
    assert await beside.take() is None


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (None, "The commit of step 5 took longer than 0 s and was given up"),
        (StoreError("The store is out."), "of step 5, or its log, failed: The store is out."),
        (TrainerLost("It is gone."), "The commit of step 5, or its log, failed: It is gone."),
    ],
)
async def test_a_commit_that_does_not_succeed_is_told_at_the_end_of_its_run(
    failure: Exception | None,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(loop, "COMMIT_GRACE_S", 0.01)
    work = Work(failure)
    if failure:
        work.done.set()

    async def commit() -> None:
        await work.do()

    with caplog.at_level(logging.WARNING):
        async with Life(tmp_path, {}).opened() as run:
            with pytest.raises(ZeroDivisionError):
                async with TrainingLoop(run)._finish_on_exit():
                    run.commits.start(4, commit())
                    raise ZeroDivisionError
    assert told in caplog.text


@pytest.mark.parametrize("failure", [None, TrainerLost("It is gone."), StoreError("It is out.")])
async def test_a_trainer_that_is_lost_in_a_commit_is_started_again_and_no_other_failure_hidden(
    failure: Exception | None, tmp_path: Path
) -> None:
    work = Work(failure)
    work.done.set()

    async def commit() -> None:
        await work.do()

    is_store_out = isinstance(failure, StoreError)
    async with Life(tmp_path, {}).opened() as run:
        training = TrainingLoop(run)
        await training.resume()
        run.described, run.ledger = record(0), run.ledger.charge(1.0)
        run.commits.start(0, commit())
        with pytest.raises(StoreError) if is_store_out else nullcontext():
            async with training.recovering():
                raise TrainerLost("It is gone.")
        assert run.trainer.losses == (0 if is_store_out else 1)
        # Continued from what the store has.
        assert (run.described is None, run.ledger.usd == 0) == (not is_store_out,) * 2
        assert run.commits.step is None
