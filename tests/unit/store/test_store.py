"""The folder store: atomic writes, conditional writes, and keys that stay inside."""

import contextlib
import errno
import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from precis.environment import S3Environment, Variables
from precis.errors import ConfigError, PrecisError, StoreConflict, StoreError, StoreRefused
from precis.store import Blob, FolderStore, open_store
from precis.store.s3 import S3Store
from tests.support.stopped import HOLD_LOCK, stopped_process


def test_a_store_that_can_not_be_written_is_not_told_to_free_space(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreRefused, match="link lies where a folder is needed"):
        FolderStore(tmp_path / "file" / "store").put("a", b"one")
    with pytest.raises(StoreRefused, match=r"Can't read .* link lies where a folder is needed"):
        FolderStore(tmp_path / "file").get("m/ledger.json")
    with pytest.raises(StoreError, match="Can't write"):
        FolderStore(tmp_path / "file" / "store").check()
    (tmp_path / "link").symlink_to(tmp_path / "link")
    with pytest.raises(PrecisError, match="a broken link lies where a folder is needed"):
        open_store(str(tmp_path / "link")).check()


@pytest.mark.parametrize(
    ("number", "kind", "advice"),
    [
        (errno.EACCES, StoreRefused, "Let this user write there"),
        (errno.EROFS, StoreRefused, "Let this user write there"),
        (errno.ENOSPC, StoreError, "Free some space"),
        (errno.EIO, StoreError, "Choose another store"),
    ],
)
def test_what_to_do_follows_from_what_was_wrong(
    store: FolderStore, number: int, kind: type[StoreError], advice: str
) -> None:
    with pytest.raises(StoreError, match=advice) as caught, store._writing(store.root / "a"):
        raise OSError(number, os.strerror(number))
    assert type(caught.value) is kind


def test_of_many_conditional_writers_one_wins(tmp_path: Path) -> None:
    class Slow(FolderStore):
        def get(self, key: str) -> Blob | None:
            found = super().get(key)
            time.sleep(0.005)  # or most write before the next one has looked
            return found

    store = Slow(tmp_path / "store")

    def wins(number: int) -> bool:
        try:
            store.put_if("latest.json", str(number).encode(), None)
        except StoreConflict:
            return False
        return True

    with ThreadPoolExecutor(16) as writers:
        won = list(writers.map(wins, range(16)))
    blob = store.get("latest.json")
    assert blob is not None
    assert won.count(True) == 1 and won[int(blob.data)]


def test_a_store_that_ignores_conditions_is_refused(tmp_path: Path) -> None:
    class Careless(FolderStore):
        def put_if(self, key: str, data: bytes, version: str | None) -> str:
            return self.put(key, data)

    with pytest.raises(StoreRefused, match="ignores conditional writes"):
        Careless(tmp_path).check()
    assert Careless(tmp_path).keys("") == []


def test_a_failed_copy_leaves_nothing_and_names_its_end(store: FolderStore, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="Can't write"):
        store.upload(tmp_path / "missing", "a")
    assert not list(store.root.iterdir())
    store.put("m/weights", b"x")
    with pytest.raises(StoreError, match=r"Can't copy .*/m/weights to .*/gone/weights: No such"):
        store.download("m/weights", tmp_path / "gone" / "weights")


@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES, errno.ENOENT])
def test_a_folder_that_can_not_be_read_is_no_empty_one_unless_it_is_gone(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """A run would take its checkpoints for lost, and go back to an earlier one; and all runs of a
    sweep lie in one store, of which others delete something meanwhile."""
    scan = os.scandir

    def scan_badly(path: Any) -> Any:
        if str(path).endswith("0001"):
            raise OSError(code, os.strerror(code))
        return scan(path)

    store.put("m/checkpoints/0001/weights", b"x")
    store.put("m/ledger.json", b"x")
    monkeypatch.setattr(os, "scandir", scan_badly)
    if code == errno.ENOENT:
        assert store.keys("m/") == ["m/ledger.json"]
    else:
        with pytest.raises(StoreError, match=f"Can't read .*: {os.strerror(code)}"):
            store.keys("m/")
    if code != errno.EIO:  # EACCES: as another user's run may be
        assert store.keys("") == ["m/ledger.json"]


def test_no_file_of_another_is_deleted(store: FolderStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(path))

    store.put("m/whole", b"x")
    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(StoreRefused, match=r"Can't delete .*/m/whole: Operation not permitted"):
        store.delete("m/")
    assert store.keys("") == ["m/whole"]


def test_the_default_store_is_the_seed_scripts_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PRECIS_STORE", raising=False)
    monkeypatch.setenv("BACKUP_BUCKET", "backups")
    assert Variables().store == "s3://backups"
    monkeypatch.setenv("PRECIS_STORE", "elsewhere")
    assert Variables().store == "elsewhere"


@pytest.mark.parametrize("url", ["s3://bucket", "s3://bucket/some/prefix"])
def test_a_bucket_is_opened_by_its_url(url: str) -> None:
    assert open_store(url).url == url
    assert open_store(f"{url}/").url == url
    with pytest.raises(ConfigError, match="no store speaks ftp://"):
        open_store("ftp://host/folder")
    with pytest.raises(ConfigError, match="the home of a user who is not there"):
        open_store("~no-such-user/store")
    with pytest.raises(ConfigError, match="names no bucket"):
        open_store("s3:///prefix")


def test_a_server_that_never_answers_is_asked_to_read_as_often_as_the_setting_says() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=16) as silent:
        settings = S3Environment.model_validate(
            {
                "aws_access_key_id": "an-id",
                "aws_secret_access_key": "a-secret",
                "aws_region": "us-east-1",
                "aws_endpoint_url": f"http://127.0.0.1:{silent.getsockname()[1]}",
                "tries_max": 2,
                "timeout_s": 0.1,
            }
        )
        with pytest.raises(StoreError, match="no whole answer of S3 came"):
            S3Store("bucket", settings=settings).get("m/ledger.json")
        silent.setblocking(False)
        asked = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                silent.accept()[0].close()
                asked += 1
    assert asked == 2


@pytest.mark.parametrize(("present", "is_conflict"), [("v", False), ("w", True), (None, True)])
def test_a_write_that_is_refused_to_all_writers_is_no_conflict(
    present: str | None, is_conflict: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3 answers 409 to one that comes while another is under way, such as our own late one: the
    lease is not lost."""
    store = S3Store("bucket", settings=S3Environment.model_validate({"aws_region": "us-east-1"}))

    def refuse(key: str, *_: Any, **__: Any) -> None:
        raise StoreConflict(f"Can't write {key}.")

    monkeypatch.setattr(store, "put", refuse)
    monkeypatch.setattr(store, "_head", lambda _: present and {"ETag": present})
    monkeypatch.setattr("precis.store.s3._PAUSES_S", (0.0,))
    with pytest.raises(StoreError) as caught:
        store.put_if("m/lease.json", b"ours", "v")
    assert isinstance(caught.value, StoreConflict) is is_conflict


def test_nobody_awaits_a_stopped_write(store: FolderStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is the lock taken from it: its write is still to come, and two would have won."""
    monkeypatch.setattr("precis.store.folder.PATIENCE_S", 0.2)
    lock = store.root / "m" / ".precis.lock"
    lock.parent.mkdir(parents=True)
    with stopped_process(HOLD_LOCK, str(lock)) as holder:
        with pytest.raises(StoreError, match=f"held by process {holder.pid} on ") as caught:
            store.put_if("m/lease.json", b"ours", None)
        assert type(caught.value) is StoreError
        assert store.get("m/lease.json") is None


def test_a_run_is_deleted_with_foreign_files_that_can_be_no_keys(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    store.put("m/ledger.json", b"x")
    (tmp_path / "m" / "Icon\r").touch()
    with pytest.raises(StoreError, match="invisible character"):
        store.delete_keys(["m/Icon\r"])
    store.delete("m/")
    assert not (tmp_path / "m").exists()
