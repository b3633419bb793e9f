"""Checkpoints: a manifest means whole, and only what it says is restored."""

from pathlib import Path

import pytest

from precis.checkpoints import commit, committed_steps, manifest, restore
from precis.errors import CorruptCheckpoint, StoreError
from precis.store import FolderStore


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path / "store")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "0001"
    (folder / "sub").mkdir(parents=True)
    (folder / "weights").write_bytes(b"w" * 1000)
    (folder / "sub" / "config").write_bytes(b"{}")
    return folder


def test_a_committed_checkpoint_is_restored_byte_by_byte(
    store: FolderStore, folder: Path, tmp_path: Path
) -> None:
    commit(store, "m", 1, folder, "digest")
    into = tmp_path / "restored"
    checkpoint = restore(store, "m", 1, into)
    assert (into / "weights").read_bytes() == b"w" * 1000
    assert (into / "sub" / "config").read_bytes() == b"{}"
    assert (checkpoint.step, checkpoint.parent, checkpoint.config) == (1, 0, "digest")


def test_a_checkpoint_without_a_manifest_does_not_exist(store: FolderStore, folder: Path) -> None:
    store.upload(folder / "weights", "m/checkpoints/0001/weights")
    assert committed_steps(store, "m") == []
    assert manifest(store, "m", 1) is None
    with pytest.raises(CorruptCheckpoint, match="never completed"):
        restore(store, "m", 1, folder.with_name("into"))


@pytest.mark.parametrize("damage", [b"w" * 999, b"v" * 1000])
def test_an_altered_file_is_found_and_named(
    store: FolderStore, folder: Path, tmp_path: Path, damage: bytes
) -> None:
    commit(store, "m", 1, folder, "digest")
    store.put("m/checkpoints/0001/weights", damage)
    with pytest.raises(CorruptCheckpoint, match="0001/weights differs from its manifest"):
        restore(store, "m", 1, tmp_path / "into")
    assert not (tmp_path / "into").exists()


def test_a_manifest_with_unknown_fields_is_refused(store: FolderStore, folder: Path) -> None:
    commit(store, "m", 1, folder, "digest")
    blob = store.get("m/checkpoints/0001/manifest.json")
    assert blob is not None
    store.put("m/checkpoints/0001/manifest.json", blob.data.replace(b'"step"', b'"steps"'))
    with pytest.raises(CorruptCheckpoint, match="damaged"):
        manifest(store, "m", 1)


def test_committing_again_changes_nothing(store: FolderStore, folder: Path) -> None:
    first = commit(store, "m", 1, folder, "digest")
    assert commit(store, "m", 1, folder, "digest") == first
    assert committed_steps(store, "m") == [1]


def test_an_empty_folder_is_not_a_checkpoint(store: FolderStore, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(StoreError, match="empty"):
        commit(store, "m", 1, tmp_path / "empty", "digest")
