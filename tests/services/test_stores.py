"""What every store does, a folder as well as a bucket on a real server."""

from pathlib import Path

import pytest

from precis.errors import StoreConflict, StoreError
from precis.store import FolderStore, Store
from tests.services.s3_server import new_store

pytestmark = pytest.mark.services


@pytest.fixture(params=["folder", "bucket"])
def store(request: pytest.FixtureRequest, s3_url: str, tmp_path: Path) -> Store:
    return FolderStore(tmp_path / "store") if request.param == "folder" else new_store(s3_url)


def test_what_was_put_is_got_with_its_version_and_a_check_leaves_it_alone(store: Store) -> None:
    store.check()
    assert store.keys("") == []
    version = store.put("a/b.json", b"one")
    blob = store.get("a/b.json")
    assert blob is not None and (blob.data, blob.version) == (b"one", version)
    assert store.get("nothing/here") is None


def test_a_conditional_write_needs_the_version_that_is_there(store: Store) -> None:
    first = store.put_if("latest.json", b"1", None)
    store.put_if("latest.json", b"2", first)
    for version in (first, None):
        with pytest.raises(StoreConflict, match=r"latest\.json.* was written by somebody else"):
            store.put_if("latest.json", b"3", version)
    with pytest.raises(StoreConflict):
        store.put_if("missing.json", b"3", first)


def test_keys_and_folders_are_listed_and_deleted_with_their_prefix(store: Store) -> None:
    assert store.folders() == []
    for key in ("n/a", "m/1/a", "m/10/a", "m/ledger.json", "alone"):
        store.put(key, key.encode())
    assert store.folders() == ["m", "n"]
    assert store.sizes("m/1/") == {"m/1/a": 5}
    assert store.sizes("m/1") == {"m/1/a": 5, "m/10/a": 6}
    store.delete("m/1/")
    assert store.keys("m/") == ["m/10/a", "m/ledger.json"]
    store.delete_keys(["m/10/a", "m/not-there", "m/ledger.json"])
    store.delete_keys([])
    assert store.keys("") == ["alone", "n/a"]


def test_a_transfer_that_fails_leaves_what_was_there(store: Store, tmp_path: Path) -> None:
    store.put("a", b"old")
    with pytest.raises(StoreError):
        store.upload(tmp_path / "missing", "a")
    blob = store.get("a")
    assert blob is not None and blob.data == b"old"
    with pytest.raises(StoreError, match="not-there"):
        store.download("not-there", tmp_path / "down")
    assert not (tmp_path / "down").exists()
    assert store.keys("") == ["a"]
