"""A checkpoint that could not be uploaded, and is kept on this machine."""

import shutil
from pathlib import Path

import pytest

from precis.errors import StoreError
from precis.records.ledger import load_ledger
from precis.run.checkpoints import manifest
from precis.store import FolderStore
from precis.training.stages import keep_record, upload_kept
from tests.support.dying_store import Killed
from tests.support.in_process import Life, one_process
from tests.support.ledgers import EMPTY, record


async def test_what_cannot_be_uploaded_is_kept_and_goes_up_with_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upload = FolderStore.upload

    def upload_or_fail(store: FolderStore, path: Path, key: str) -> None:
        if "checkpoints/0002" in key:
            raise StoreError("The store is out.")
        upload(store, path, key)

    with one_process(tmp_path / "home"):
        life = Life(tmp_path / "run", {"validate_every": 5})
        with monkeypatch.context() as patch:
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


def test_one_that_was_uploaded_is_not_uploaded_in_part_after_a_kill(
    store: FolderStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "kept"
    (folder / "files").mkdir(parents=True)
    for name in ("adapter", "optimizer"):
        (folder / "files" / name).write_text(name)
    keep_record(folder, record(0))

    def remove_in_part(_: Path) -> None:
        (folder / "files" / "optimizer").unlink()
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", remove_in_part)
        with pytest.raises(Killed):
            upload_kept(store, EMPTY, folder)
    uploaded = manifest(store, "m", 1)
    assert uploaded is not None and len(uploaded.files) == 2
    upload_kept(store, EMPTY, folder)
    assert manifest(store, "m", 1) == uploaded
