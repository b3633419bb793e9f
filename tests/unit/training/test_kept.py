"""A checkpoint that could not be uploaded, and is kept on this machine."""

import shutil
from pathlib import Path

import pytest

from precis.run.checkpoints import manifest
from precis.store import FolderStore
from precis.training.stages import keep_record, upload_kept
from tests.support.dying_store import Killed
from tests.support.ledgers import EMPTY, record


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
