"""The S3 store against a real server over HTTP."""

import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from precis.errors import StoreRefused
from precis.store import s3
from precis.store.s3 import S3Store
from precis.store.s3_client import client_for
from tests.services.fault_proxy import FaultProxy
from tests.services.s3_server import new_store, settings_for

pytestmark = pytest.mark.services

_PARTS = 33 * 1024 * 1024


@pytest.fixture
def store(s3_url: str) -> Iterator[S3Store]:
    store = new_store(s3_url)
    yield store
    store.delete("")


def test_more_keys_than_one_answer_holds_are_listed_and_deleted(
    store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Else an answer holds a thousand.
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "10")
    monkeypatch.setattr(s3, "_KEYS_A_DELETION", 10)
    keys = [f"many/{at:04d}" for at in range(25)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: store.put(key, b""), keys))
    assert store.keys("many/") == keys
    store.delete("many/")
    assert store.keys("many/") == []


def test_a_file_in_many_parts_comes_back_with_its_checksums(store: S3Store, tmp_path: Path) -> None:
    data = os.urandom(_PARTS)
    (tmp_path / "up").write_bytes(data)
    store.upload(tmp_path / "up", "adapter")
    store.download("adapter", tmp_path / "down")
    assert (tmp_path / "down").read_bytes() == data
    head = store._s3.head_object(Bucket=store.bucket, Key="runs/a/adapter", ChecksumMode="ENABLED")
    assert head["ChecksumSHA256"]


def test_encryption_is_asked_for_where_it_is_set(s3_url: str, tmp_path: Path) -> None:
    store = new_store(s3_url, sse="AES256")
    (tmp_path / "up").write_bytes(b"weights")
    store.upload(tmp_path / "up", "adapter")
    store.put("ledger", b"{}")
    for key in ("adapter", "ledger"):
        head = store._s3.head_object(Bucket=store.bucket, Key=f"runs/a/{key}")
        assert head["ServerSideEncryption"] == "AES256"


def test_a_missing_bucket_is_refused_unless_it_may_be_created(s3_url: str) -> None:
    settings = settings_for(s3_url, create_bucket=False)
    with pytest.raises(StoreRefused, match=r"no such bucket.*PRECIS_S3_CREATE_BUCKET"):
        S3Store("precis-nowhere", "", settings).check()


def test_a_wrong_key_is_refused_and_not_shown(s3_url: str, store: S3Store) -> None:
    httpx.post(f"{s3_url}/moto-api/reset-auth", content=b"0")
    try:
        with pytest.raises(StoreRefused, match="AWS_ACCESS_KEY_ID") as refusal:
            S3Store(store.bucket, "", settings_for(s3_url, timeout_s=5.0)).check()
        assert "test" not in str(refusal.value)
    finally:
        httpx.post(f"{s3_url}/moto-api/reset-auth", content=b"inf")


def test_a_server_that_ignores_conditions_is_refused(s3_url: str, store: S3Store) -> None:
    with FaultProxy(s3_url, dropping=("if-none-match",)) as proxy:
        careless = S3Store(store.bucket, "", settings_for(proxy.url))
        with pytest.raises(StoreRefused, match="ignores conditional writes"):
            careless.check()
    assert store.keys("") == []


def test_abandoned_uploads_below_the_prefix_are_aborted(store: S3Store) -> None:
    for key in ("runs/a/half", "runs/b/theirs"):
        store._s3.create_multipart_upload(Bucket=store.bucket, Key=key)
    assert store.clean() == 1
    left = store._s3.list_multipart_uploads(Bucket=store.bucket)["Uploads"]
    assert [upload["Key"] for upload in left] == ["runs/b/theirs"]


def test_one_client_serves_many_threads(s3_url: str, store: S3Store) -> None:
    assert client_for(settings_for(s3_url)) is client_for(settings_for(s3_url))
    before = threading.active_count()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: store.put(f"t/{number}", b"x"), range(40)))
    assert len(store.keys("t/")) == 40
    assert threading.active_count() <= before + 1
