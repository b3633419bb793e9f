"""A checkpoint that could not be uploaded, and is kept on this machine."""

import asyncio
import shutil
from pathlib import Path

import pytest

from precis.cluster.site import HourlyPrice, Meter
from precis.errors import StoreError
from precis.records.ledger import StepRecord, load_ledger
from precis.rollouts.filter import StepRollouts
from precis.runs.checkpoints import manifest
from precis.store import FolderStore
from precis.training.run import Run
from precis.training.stages import gather_rollouts, keep_record, upload_kept
from tests.support.dying_store import Killed
from tests.support.in_process import Life, hooked, one_process, train
from tests.support.ledgers import EMPTY, record
from tests.support.paid_judge import KEY, paid


async def test_what_cannot_be_uploaded_goes_up_with_the_next_start(tmp_path: Path) -> None:
    upload = FolderStore.upload

    def upload_or_fail(store: FolderStore, path: Path, key: str) -> None:
        if "checkpoints/0002" in key:
            raise StoreError("The store is out.")
        upload(store, path, key)

    with one_process(tmp_path / "home"):
        life = Life(tmp_path / "run", {"validate_every": 5})
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(FolderStore, "upload", upload_or_fail)
            with pytest.raises(StoreError, match="to the store when the run is started again"):
                await life.live()
        assert len(list(life.work.glob("kept-*"))) == 1
        assert load_ledger(life.store, "m").next_step == 1
        shutil.rmtree(life.work / "trainer")  # as when the machine was rented
        of_another_run = life.work / "kept-before-a-restart" / "files"
        of_another_run.mkdir(parents=True)
        await life.live()
    assert load_ledger(life.store, "m").next_step == 2
    log = life.work / "trainer/precis/models/m/trainings.jsonl"
    assert not log.exists() or "trained" not in log.read_text(), "it was trained again"
    assert list(life.work.glob("kept-*")) == [of_another_run.parent], "it may be the last copy"


@pytest.mark.parametrize("is_given_up", [False, True])
async def test_what_was_spent_beside_a_commit_that_did_not_succeed_is_booked_by_the_next_start(
    is_given_up: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next step was sampled and judged meanwhile."""
    hours = 0.0

    def work(point: str, step: int | None) -> None:
        nonlocal hours
        hours += point in ("rollouts scored", "step trained")

    async def fail(run: Run, record: StepRecord) -> None:
        if is_given_up:
            await asyncio.Event().wait()
        raise StoreError("The store is out.")

    async def sample(run: Run, step: int) -> StepRollouts:
        rollouts = await gather_rollouts(run, step)
        if step and is_given_up:
            raise asyncio.CancelledError
        return rollouts

    monkeypatch.setenv("JUDGE_API_KEY", KEY)
    monkeypatch.setattr("precis.training.loop.COMMIT_GRACE_S", 0.01)
    async with paid(tmp_path / "run", validate_every=5) as (life, judge):
        with one_process(tmp_path / "home"), hooked(work):
            async with life.opened() as run:
                run.trainer.meter = Meter(lambda: 3600 * hours)
                run.trainer.meter.start(HourlyPrice(2.0, 2.0))
                with pytest.raises(asyncio.CancelledError if is_given_up else StoreError):
                    await train(run, gather=sample, commit=fail)
        assert (hours, load_ledger(life.store, "m").next_step) == (3, 0)
        for _ in range(2):
            with one_process(tmp_path / "home"):
                await life.live()
            assert load_ledger(life.store, "m").usd == pytest.approx(judge.usd + 2.0 * hours)
        assert load_ledger(life.store, "m").machine_usd == 2.0  # sampling, before its training


def test_one_that_was_uploaded_stays_whole_after_a_kill(store: FolderStore, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    (folder / "files").mkdir(parents=True)
    for name in ("adapter", "optimizer"):
        (folder / "files" / name).write_text(name)
    keep_record(folder, record(0))

    def remove_in_part(_: Path) -> None:
        (folder / "files" / "optimizer").unlink()
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shutil, "rmtree", remove_in_part)
        with pytest.raises(Killed):
            upload_kept(store, EMPTY, folder)
    uploaded = manifest(store, "m", 1)
    assert uploaded is not None and len(uploaded.files) == 2
    upload_kept(store, EMPTY, folder)
    assert manifest(store, "m", 1) == uploaded
