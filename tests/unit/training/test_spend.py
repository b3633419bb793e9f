"""What a run says that it has spent is what was charged, whatever died meanwhile."""

import asyncio
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import pytest

from precis.cluster.site import HourlyPrice, Meter, TrainerAddress
from precis.config import RunConfig
from precis.environments.summaries.environment import Summaries
from precis.errors import NoCapacity, StoreConflict, StoreError
from precis.records.ledger import Validation, find_ledger, load_ledger, write_ledger
from precis.records.spend import Spend
from precis.runs.lease import leased
from precis.settings.cluster import ClusterConfig
from precis.store import FolderStore
from precis.training import run as run_module
from precis.training.loop import TrainingLoop
from precis.training.opening import open_environment, open_run
from precis.training.run import Run
from precis.training.warm_start import DemonstrationJournal
from tests.support.dying_store import SilentStore
from tests.support.in_process import Life, in_process, live_noting, one_process, train
from tests.support.ledgers import record, stored_ledger
from tests.support.paid_judge import KEY, paid

KEPT = [("demonstrations kept", 0), ("step trained", 1), ("manifest written", 2)]
"""Points behind which nothing is paid for again, and at which no answer is on its way. Beside any
other commit than the last, the next step asks the judge: what a flow that is killed was about to be
answered is paid for, and nobody knows of it."""


async def test_what_is_trained_or_kept_and_not_yet_committed_is_paid_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUDGE_API_KEY", KEY)
    settings: dict[str, Any] = {
        "validate_every": 5,
        "warm_start": {"measured_scenarios": 2},
        "documents": {"source": "bundled", "train_size": 12, "val_size": 3},
    }
    async with paid(tmp_path / "whole", **settings) as (whole, judge):
        with one_process(tmp_path / "home"):
            points = await live_noting(whole, tmp_path / "disks", lambda: judge.usd)
        assert load_ledger(whole.store, "m").usd == pytest.approx(judge.usd)
        killed = [one for one in points if (one.name, one.number) in KEPT]
        assert len(killed) == len(KEPT)
        for point in killed:
            # Its own cache of replies is empty: all that is asked is paid for.
            with one_process(tmp_path / f"home-{point.name}"):
                life = Life(tmp_path / f"killed at {point.name}", whole.settings)
                life.begin_with(point.copy)
                before = judge.usd
                await life.live()
            ledger = load_ledger(life.store, "m")
            assert ledger.steps[0].warm_start is not None
            assert all(step.judge.usd >= 0 for step in ledger.steps)
            cost = point.service + judge.usd - before
            assert ledger.usd == pytest.approx(cost), f"killed at {point.name}"


async def test_all_judging_is_booked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as that of the benchmark behind the training, or of a start that ends before it."""
    monkeypatch.setenv("JUDGE_API_KEY", KEY)
    noted: list[int] = []
    async with paid(tmp_path / "store", budget_usd=1.0) as (life, judge):
        with one_process(tmp_path / "home"):

            async def note(run: Run, validation: Validation) -> None:
                assert run.ledger.usd == pytest.approx(judge.usd)
                noted.append(validation.step)

            async def fail(config: RunConfig, host: object) -> TrainerAddress:
                raise NoCapacity("There is none.")

            async with life.opened() as run:
                await train(run, log_validation=note)
                assert noted == [0, 1, 2]
                environment = run.environment
                assert isinstance(environment, Summaries)
                document = environment.corpus.train[0]
                await environment.judge.score(document, document.text)
                assert run.usd_left == pytest.approx(1.0 - judge.usd)
            assert load_ledger(life.store, "m").usd == pytest.approx(judge.usd)
            # The next start begins its spending anew.
            async with open_environment(life.config, in_process) as environment:
                assert isinstance(environment, Summaries)
                await environment.judge.score(document, document.text[:-9])
                with pytest.raises(NoCapacity):
                    async with open_run(life.config, environment, "next", in_process, fail):
                        pass
    assert load_ledger(life.store, "m").usd == pytest.approx(judge.usd)


async def test_what_a_service_charges_counts_before_its_step_is_committed(tmp_path: Path) -> None:
    """Or a budget that is used up would let one more step begin."""
    async with Life(tmp_path, {}).opened() as run:
        await run.read_ledger()
        run.described = record(0, usd=0.0)
        run.service_usd = 4.0
        assert run.usd == pytest.approx(4.0)
        charged = run.described.model_copy(update={"machine_usd": 4.0})
        await run.write_ledger(run.ledger.advance(charged))
        assert run.usd == pytest.approx(4.0)


async def test_what_is_left_to_book_is_no_rounding_error_below_zero(tmp_path: Path) -> None:
    """A batch of demonstrations that cost nothing could not be kept."""
    store = FolderStore(tmp_path)
    async with Life(tmp_path, {}).opened() as run:
        await run.read_ledger()
        for usd in (2.82, 7.55):
            run.taught = Spend(usd=usd, unpriced=1)
            spend = run.unbooked
            await run.write_ledger(run.ledger.charge(spend.usd), spend)
        assert load_ledger(store, "m").unpriced == 1, "of a call beside the steps"
        DemonstrationJournal(store, "m", "c").add((), run.unbooked.usd)
    assert DemonstrationJournal(store, "m", "c").kept.usd == 0


async def test_a_last_cost_is_booked_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with Life(tmp_path, {}).opened() as run:
        await run.read_ledger()
        await run.book_rest(Spend(usd=1.0))
        assert find_ledger(run.store, "m") is None
        assert "The run's last $1.00 are in no ledger: The run did not begin." in caplog.text
        await run.read_ledger()
        await run.write_ledger(run.ledger)
        run.described = record(0, usd=2.0)
        await run.book_rest(Spend(usd=3.0))
        booked = load_ledger(run.store, "m")
        assert booked.usd == 3.0
        # The next start finds its manifest, or does not.
        found = booked.advance(run.described)
        assert found.settle(is_recorded=True).usd == booked.settle(is_recorded=False).usd == 3.0


async def test_a_store_that_hangs_does_not_hold_up_the_machine_that_is_to_be_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(run_module, "_BOOK_S", 0.01)
    answers = threading.Event()
    async with Life(tmp_path, {}).opened() as run:
        await run.read_ledger()
        await run.write_ledger(run.ledger)
        monkeypatch.setattr(run._stored, "write", lambda data: answers.wait(5))
        await run.book_rest(Spend(usd=3.0))
        answers.set()
    assert "last $3.00 are in no ledger: The store did not answer for 0 s." in caplog.text


async def test_a_machine_left_up_costs_from_the_last_commit(tmp_path: Path) -> None:
    """It began two hours ago; the second one has committed steps a moment ago."""
    life = Life(tmp_path, {"validate_every": 5})
    for _ in range(2):
        async with life.opened() as run:
            began = run.lease.holder.since - timedelta(hours=2)
            run.lease.former = run.lease.holder.model_copy(update={"since": began})
            run.trainer.meter = Meter(lambda: 0.0)
            run.trainer.meter.note_uptime(90_000)
            run.trainer.meter.start(HourlyPrice(2.0, 2.0))
            loop = TrainingLoop(run)
            await loop.resume()
            await loop.resume()  # as where its trainer was lost
            assert run.usd == pytest.approx(4.0, abs=1.0)
            await loop.train()


@pytest.mark.parametrize(("where", "usd"), [("sky", 3.0), ("local", 2.0 + 3.0)])
async def test_a_machine_of_a_run_that_was_taken_over_is_counted_by_its_next_holder(
    tmp_path: Path, where: Literal["sky", "local"], usd: float, caplog: pytest.LogCaptureFixture
) -> None:
    """Unless it is the one that the run itself is on, such as a managed job's."""
    async with Life(tmp_path, {}).opened() as run:
        run.config = run.config.model_copy(update={"cluster": ClusterConfig(where=where)})
        await run.read_ledger()
        await run.write_ledger(run.ledger)
        run.trainer.meter = Meter(lambda: 0.0)
        run.trainer.meter.start(HourlyPrice(2.0, 2.0), 3600)
        async with leased(run.store, "m", "second", take_over=True) as second:
            await run.book_rest(Spend(usd=3.0))
        assert second.former and second.former.id == run.lease.id and second.dead is None
        assert f"The run's last ${usd:.2f} are in no ledger" in caplog.text


async def test_a_written_cost_counts_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The network is lost while the cost of a validation is written, and comes back."""
    life = Life(tmp_path, {})
    async with life.opened() as run:
        run.store = store = SilentStore(tmp_path)
        await TrainingLoop(run).resume()
        store.silent = True
        spend = Spend(usd=3.0)
        with pytest.raises(StoreError):
            await run.write_ledger(run.ledger.charge(spend.usd), spend)
        await run.book_rest(spend)
        assert "The run's last $3.00 are in no ledger: No whole answer" in caplog.text
        store.silent = False
        await run.book_rest(Spend(usd=1.0))
    async with life.opened() as run:
        await TrainingLoop(run).resume()
        assert run.ledger.usd == 4.0


async def test_a_cost_whose_booking_was_cancelled_is_booked_once(tmp_path: Path) -> None:
    """The write may have been carried out all the same."""

    async def cancelled() -> None:
        raise asyncio.CancelledError

    async with Life(tmp_path, {}).opened() as run:
        await run.read_ledger()
        await run.write_ledger(run.ledger)
        run.taught = Spend(usd=3.0, unpriced=1)
        with pytest.MonkeyPatch.context() as patch, pytest.raises(asyncio.CancelledError):
            patch.setattr(run.lease, "check", cancelled)
            await run.book_rest(run.unbooked)
        run.taught += Spend(usd=1.0)
        await run.book_rest(run.unbooked)
        booked = load_ledger(run.store, "m")
        assert (booked.usd, booked.unpriced) == (4.0, 1)


async def test_a_written_ledger_whose_answer_was_lost_does_not_end_its_run(tmp_path: Path) -> None:
    """A commit that is tried again has taken longer, so its step is not the one in the store."""
    store = SilentStore(tmp_path)
    async with Life(tmp_path, {}).opened() as run:
        run.store = store
        await run.read_ledger()
        tries = [record(0, commit_s=seconds) for seconds in (1.0, 30.0)]
        store.silent = True
        with pytest.raises(StoreError, match="No whole answer"):
            await run.write_ledger(run.ledger.advance(tries[0]))
        store.silent = False
        await run.write_ledger(run.ledger.advance(tries[1]))
        written, version = stored_ledger(store)
        assert written.steps == (tries[1],)
        write_ledger(store, written.charge(1.0), version)
        with pytest.raises(StoreConflict):
            await run.write_ledger(run.ledger.charge(2.0))
