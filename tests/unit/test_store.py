"""The folder store: atomic writes, conditional writes, and keys that stay inside."""

import threading
from pathlib import Path

import pytest

from precis.errors import ConfigError, StoreConflict, StoreError
from precis.store import FolderStore, open_store


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path / "store")


def test_what_was_put_is_got_with_its_version(store: FolderStore) -> None:
    version = store.put("a/b.json", b"one")
    blob = store.get("a/b.json")
    assert blob is not None
    assert (blob.data, blob.version) == (b"one", version)


def test_what_was_never_put_is_none(store: FolderStore) -> None:
    assert store.get("nothing/here") is None


def test_a_conditional_write_needs_the_version_that_is_there(store: FolderStore) -> None:
    first = store.put_if("latest.json", b"1", None)
    store.put_if("latest.json", b"2", first)
    with pytest.raises(StoreConflict, match=r"latest\.json was written by somebody else"):
        store.put_if("latest.json", b"3", first)
    with pytest.raises(StoreConflict):
        store.put_if("latest.json", b"3", None)


def test_of_many_conditional_writers_one_wins(store: FolderStore) -> None:
    wins: list[int] = []

    def write(number: int) -> None:
        try:
            store.put_if("latest.json", str(number).encode(), None)
        except StoreConflict:
            return
        wins.append(number)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(16)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    blob = store.get("latest.json")
    assert blob is not None
    assert [int(blob.data)] == wins


def test_keys_are_listed_below_their_prefix_and_deleted_with_it(store: FolderStore) -> None:
    for key in ("m/checkpoints/0001/a", "m/checkpoints/0002/a", "m/ledger.json"):
        store.put(key, b"x")
    assert store.keys("m/checkpoints/") == ["m/checkpoints/0001/a", "m/checkpoints/0002/a"]
    store.delete("m/checkpoints/0001/")
    assert store.keys("m/") == ["m/checkpoints/0002/a", "m/ledger.json"]


def test_a_key_cannot_leave_the_store(store: FolderStore) -> None:
    with pytest.raises(StoreError, match="leads out of the store"):
        store.put("../outside", b"x")


def test_a_write_that_fails_leaves_what_was_there(store: FolderStore, tmp_path: Path) -> None:
    store.put("a", b"old")
    with pytest.raises(StoreError, match="Can't write"):
        store.upload(tmp_path / "missing", "a")
    blob = store.get("a")
    assert blob is not None and blob.data == b"old"
    assert [path.name for path in store.root.iterdir()] == ["a"]


def test_an_unknown_scheme_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="no store speaks ftp://"):
        open_store("ftp://host/folder")
