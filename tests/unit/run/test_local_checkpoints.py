from pathlib import Path

import pytest

from precis.run.local_checkpoints import folder_of, keep_only, steps_here, write_checkpoint


def save(into: Path) -> None:
    (into / "weights").write_text("1")


def test_a_checkpoint_that_a_kill_left_half_deleted_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in range(3):
        write_checkpoint(folder_of(tmp_path, step), save, {})

    def remove_one_file(folder: Path, **_: object) -> None:
        if folder.exists():
            (folder / "weights").unlink()
            raise InterruptedError

    with monkeypatch.context() as killed:
        killed.setattr("shutil.rmtree", remove_one_file)
        with pytest.raises(InterruptedError):
            keep_only(tmp_path, [1, 2])
    assert steps_here(tmp_path) == [1, 2]
    write_checkpoint(folder_of(tmp_path, 0), save, {})
    keep_only(tmp_path, [2])
    assert steps_here(tmp_path) == [2]
