"""Checkpoints: a manifest means whole, and only what it says is restored."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precis.errors import CorruptCheckpoint, StoreError
from precis.runs.checkpoints import commit, complete_around, describe_steps, restore
from precis.runs.local_checkpoints import folder_of, keep_only, steps_here, write_checkpoint
from precis.store import FolderStore
from tests.support.runs import file_key

names = st.from_regex(r"(sub/|\.c/)?\.?[ab]{1,2}", fullmatch=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "0001"
    (folder / "sub").mkdir(parents=True)
    (folder / "weights").write_bytes(b"w" * 1000)
    (folder / "sub" / "config").write_bytes(b"{}")
    return folder


def test_of_many_steps_the_nearest_are_named() -> None:
    assert describe_steps([], 3) == "none"
    assert describe_steps([0, 1, 2], 3) == "0, 1, 2"
    nearest = "91, 92, 93, 94, 95, 96, 97, 98, 99, 100 and 91 more"
    assert describe_steps(range(101), 9999) == nearest
    assert describe_steps(range(0, 1000, 5), 42).startswith("20, 25, 30, 35, 40, 45, 50, 55,")


def test_an_empty_folder_is_not_a_checkpoint(store: FolderStore, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(StoreError, match="empty"):
        commit(store, "m", 1, tmp_path / "empty", "digest")


def test_from_a_step_on_every_whole_checkpoint_is_found_and_below_it_only_the_newest(
    store: FolderStore, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for step in range(6):
        commit(store, "m", step, folder, "digest")
    assert sorted(complete_around(store, "m", 4)) == [4, 5]
    store.delete(file_key(store, "m", 4, "weights"))
    assert sorted(complete_around(store, "m", 4)) == [3, 5]
    assert sorted(complete_around(store, "m", 4, passed_over=[3])) == [2, 5]
    store.put(file_key(store, "m", 3, "weights"), b"w" * 999)
    store.delete("m/checkpoints/0002/manifest.json")
    assert sorted(complete_around(store, "m", 4)) == [1, 5]
    assert file_key(store, "m", 4, "weights") + " is missing" in caplog.text


@settings(max_examples=20)
@given(files=st.dictionaries(names, st.binary(max_size=50), min_size=1, max_size=5), data=st.data())
def test_any_files_come_back_and_damage_shows(files: dict[str, bytes], data: st.DataObject) -> None:
    with TemporaryDirectory() as temporary:
        folder, store = Path(temporary) / "from", FolderStore(Path(temporary) / "store")
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        commit(store, "m", 1, folder, "digest")
        into = Path(temporary) / "into"
        checkpoint = restore(store, "m", 1, into)
        assert (checkpoint.step, checkpoint.parent, checkpoint.config) == (1, 0, "digest")
        assert {name: (into / name).read_bytes() for name in files} == files

        name = data.draw(st.sampled_from(sorted(files)))
        damaged = data.draw(st.none() | st.binary(max_size=50).filter(lambda b: b != files[name]))
        store.delete(file_key(store, "m", 1, name))
        if damaged is not None:
            store.put(file_key(store, "m", 1, name), damaged)
        with pytest.raises(CorruptCheckpoint, match="0001/"):
            restore(store, "m", 1, into)
        assert {name: (into / name).read_bytes() for name in files} == files
        assert not into.with_name(".into.incoming").exists()


def save(into: Path) -> None:
    (into / "weights").write_text("1")


def test_a_checkpoint_that_a_kill_left_half_deleted_does_not_count(tmp_path: Path) -> None:
    for step in range(3):
        write_checkpoint(folder_of(tmp_path, step), save, {})

    def remove_one_file(folder: Path, **_: object) -> None:
        if folder.exists():
            (folder / "weights").unlink()
            raise InterruptedError

    with pytest.MonkeyPatch.context() as killed:
        killed.setattr("shutil.rmtree", remove_one_file)
        with pytest.raises(InterruptedError):
            keep_only(tmp_path, [1, 2])
    assert steps_here(tmp_path) == [1, 2]
    write_checkpoint(folder_of(tmp_path, 0), save, {})
    keep_only(tmp_path, [2])
    assert steps_here(tmp_path) == [2]
