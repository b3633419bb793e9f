"""The S3 store against a real server over HTTP, in fair weather and bad: what is written is written
once and whole, or said not to be."""

import json
import os
import secrets
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from boto3.s3.transfer import create_transfer_manager
from s3transfer.exceptions import CancelledError

from cli.doctor import checks_of
from precis.config import Retention, TrainConfig
from precis.errors import CorruptCheckpoint, StoreConflict, StoreError, StoreRefused
from precis.runs.checkpoints import commit, committed_steps, restore
from precis.runs.lease import leased, read_lease
from precis.runs.retention import prune
from precis.store import s3, s3_client
from precis.store.s3 import S3Store
from precis.store.s3_client import DOWNLOAD, client_for, finish
from tests.services.fault_proxy import Fault, FaultProxy, fault_proxy
from tests.services.patience import patience_s, stretched, wait_until
from tests.services.s3_server import new_store, settings_for, through, variables_for
from tests.support.ledgers import ledger_at
from tests.support.runs import newest_whole

# boto3's transfers leave a connection whose answer has timed out to the garbage collector.
pytestmark = [
    pytest.mark.services,
    pytest.mark.usefixtures("collected"),
    pytest.mark.filterwarnings(
        "ignore:unclosed:ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
    ),
]

_PART = 5 * 1024 * 1024
"""The smallest that S3 takes: larger ones cost time alone."""
_LARGE = os.urandom(2 * _PART + 1)
"""Enough for several parts in each direction."""


@pytest.fixture(scope="module", autouse=True)
def small_parts() -> Iterator[None]:
    sizes = {"multipart_threshold": _PART, "multipart_chunksize": _PART}
    with pytest.MonkeyPatch.context() as patch:
        for transfer in (s3_client.UPLOAD, s3_client.DOWNLOAD):
            for name, size in sizes.items():
                patch.setattr(transfer, name, size)
        yield


@pytest.fixture(scope="module")
def weather(s3_url: str) -> Iterator[FaultProxy]:
    """One address for all tests, so that they share a client, which takes long to make."""
    with fault_proxy(s3_url) as proxy:
        yield proxy


@dataclass
class Way:
    """The way to a store: directly, and through a proxy that spoils what it is told to."""

    direct: S3Store
    proxy: FaultProxy
    store: S3Store

    def spoiled_by(self, fault: Fault) -> S3Store:
        """The store by a client that soon takes silence for a fault, where that is the fault: on a
        busy machine any answer may take a second."""
        if fault is not Fault.SILENCE:
            return self.store
        return through(self.proxy.url, self.direct, timeout_s=stretched(1.0))


@pytest.fixture
def direct(s3_url: str) -> S3Store:
    return new_store(s3_url)


@pytest.fixture
def way(direct: S3Store, weather: FaultProxy) -> Iterator[Way]:
    yield Way(direct, weather, through(weather.url, direct))
    weather.clear()
    weather.counts.clear()


def test_more_keys_than_one_answer_holds_are_listed_and_deleted_by_one_client_of_many_threads(
    s3_url: str, direct: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert client_for(settings_for(s3_url)) is client_for(settings_for(s3_url))
    threads = threading.active_count()
    # Else an answer holds a thousand.
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "10")
    monkeypatch.setattr(s3, "_KEYS_A_DELETION", 10)
    keys = [f"many/{at:04d}" for at in range(25)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda key: direct.put(key, b""), keys))
    assert direct.keys("many/") == keys
    direct.delete("many/")
    assert direct.keys("many/") == []
    # The server has a thread for each request, which may outlast its answer.
    wait_until(lambda: threading.active_count() <= threads + 1, "the end of the server's threads")


def test_encryption_is_asked_for_where_it_is_set(s3_url: str, tmp_path: Path) -> None:
    direct = new_store(s3_url, sse="AES256")
    (tmp_path / "up").write_bytes(b"weights")
    direct.upload(tmp_path / "up", "adapter")
    direct.put("ledger", b"{}")
    for key in ("adapter", "ledger"):
        head = direct._s3.head_object(Bucket=direct.bucket, Key=f"runs/a/{key}")
        assert head["ServerSideEncryption"] == "AES256"


def test_a_missing_bucket_is_refused_unless_it_may_be_created(s3_url: str) -> None:
    settings = settings_for(s3_url, create_bucket=False)
    with pytest.raises(StoreRefused, match=r"no such bucket.*PRECIS_S3_CREATE_BUCKET"):
        S3Store("precis-nowhere", "", settings).check()


async def test_a_new_bucket_has_no_run_yet(s3_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It makes its checks at once, and this one may come before the bucket."""
    for name, value in variables_for(s3_url).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("CONTENDER_API_KEY", "any word")
    teacher = {"provider": "url", "base_url": "http://127.0.0.1:9/v1", "model": "t"}
    given = {
        "model": "m",
        "documents": {"source": "bundled", "train_size": 8, "val_size": 2},
        "warm_start": {"source": "teacher", "scenarios": 4, "teacher": teacher},
    }
    for check, found in (("run", "m is new"), ("warm start", "does not answer a greeting")):
        store = f"s3://precis-{secrets.token_hex(4)}/runs"
        config = TrainConfig.model_validate({**given, "store": store})
        assert found in await checks_of(config)[check]()


def test_a_wrong_key_is_refused_and_not_shown(s3_url: str, direct: S3Store) -> None:
    httpx.post(f"{s3_url}/moto-api/reset-auth", content=b"0", timeout=patience_s())
    try:
        with pytest.raises(StoreRefused, match="AWS_ACCESS_KEY_ID") as refusal:
            S3Store(direct.bucket, "", settings_for(s3_url)).check()
        assert "test" not in str(refusal.value)
    finally:
        httpx.post(f"{s3_url}/moto-api/reset-auth", content=b"inf", timeout=patience_s())


def test_abandoned_uploads_below_the_prefix_are_aborted(direct: S3Store) -> None:
    for key in ("runs/a/half", "runs/b/theirs"):
        direct._s3.create_multipart_upload(Bucket=direct.bucket, Key=key)
    direct.clean()
    left = direct._s3.list_multipart_uploads(Bucket=direct.bucket)["Uploads"]
    assert [upload["Key"] for upload in left] == ["runs/b/theirs"]


@pytest.mark.parametrize("fault", Fault)
def test_a_conditional_write_wins_once_and_a_read_is_whole(way: Way, fault: Fault) -> None:
    store = way.spoiled_by(fault)
    for content, version in ((b"first", None), (b"second", way.direct.put("second", b"x"))):
        way.proxy.spoil(fault, "PUT")
        key = content.decode()
        written = store.put_if(key, content, version)
        blob = way.direct.get(key)
        assert blob is not None and (blob.data, blob.version) == (content, written)
        with pytest.raises(StoreConflict):
            store.put_if(key, content, version)

    way.direct.put("m/key", b"content" * 100)
    way.proxy.spoil(fault, "GET")
    blob = store.get("m/key")
    assert blob is not None and blob.data == b"content" * 100
    if fault is not Fault.ALTERED_ANSWER:  # a listing carries no checksum
        way.proxy.spoil(fault, "GET")
        assert store.sizes("m/") == {"m/key": 700}


@pytest.mark.parametrize("fault", Fault)
def test_a_large_file_arrives_whole_despite_faults(way: Way, tmp_path: Path, fault: Fault) -> None:
    store = way.spoiled_by(fault)
    (tmp_path / "up").write_bytes(_LARGE)
    way.proxy.spoil(fault, "PUT", "partNumber=2")
    store.upload(tmp_path / "up", "adapter")
    in_detail = {"Key": "runs/a/adapter", "ChecksumMode": "ENABLED"}
    assert way.direct._s3.head_object(Bucket=way.direct.bucket, **in_detail)["ChecksumSHA256"]
    way.direct.download("adapter", tmp_path / "down")
    assert (tmp_path / "down").read_bytes() == _LARGE

    (tmp_path / "down").unlink()
    if fault is not Fault.ALTERED_ANSWER:  # parts carry no checksum: see the restore below
        way.proxy.spoil(fault, "GET", "adapter")
        store.download("adapter", tmp_path / "down")
        assert (tmp_path / "down").read_bytes() == _LARGE
        assert way.proxy.counts[fault] == 2


def test_an_answer_altered_on_its_way_is_fetched_again(way: Way, tmp_path: Path) -> None:
    folder = tmp_path / "from"
    folder.mkdir()
    (folder / "weights").write_bytes(_LARGE)
    commit(way.direct, "m", 1, folder, "digest")
    way.proxy.spoil(Fault.ALTERED_ANSWER, "GET", "weights")
    restore(way.store, "m", 1, tmp_path / "into")
    assert (tmp_path / "into" / "weights").read_bytes() == _LARGE
    way.proxy.spoil(Fault.ALTERED_ANSWER, "GET", "weights", times=9)
    with pytest.raises(CorruptCheckpoint, match="weights differs from its manifest"):
        restore(way.store, "m", 1, tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_an_answer_that_always_breaks_off_is_tried_again(way: Way, tmp_path: Path) -> None:
    way.direct.put("m/key", b"content" * 100)
    way.proxy.spoil(Fault.TORN_ANSWER, "GET", times=99)
    with pytest.raises(StoreError, match="no whole answer of S3 came"):
        way.store.get("m/key")
    read = way.proxy.counts[Fault.TORN_ANSWER]
    with pytest.raises(StoreError, match="no whole answer of S3 came"):
        way.store.download("m/key", tmp_path / "down")
    assert (read, way.proxy.counts[Fault.TORN_ANSWER] - read) == (3, 5)


def test_a_lost_acknowledgement_is_our_success_at_once(way: Way) -> None:
    store = through(way.proxy.url, way.direct, tries_max=1)
    way.proxy.spoil(Fault.LOST_ACK, "PUT")
    version = store.put_if("latest.json", b"ours", None)
    blob = way.direct.get("latest.json")
    assert blob is not None and (blob.data, blob.version) == (b"ours", version)


@pytest.mark.parametrize("fault", [Fault.RESET, Fault.SLOW_DOWN])
def test_a_server_that_stays_down_is_given_up(way: Way, tmp_path: Path, fault: Fault) -> None:
    store = through(way.proxy.url, way.direct, tries_max=2)
    way.proxy.rain(1, 1, fault)
    (tmp_path / "up").write_bytes(b"weights")
    begun = time.monotonic()
    for act in (
        lambda: store.put("k", b"x"),
        lambda: store.put_if("k", b"x", None),
        lambda: store.get("k"),
        lambda: store.keys(""),
        lambda: store.upload(tmp_path / "up", "k"),
        lambda: store.download("k", tmp_path / "down"),
    ):
        with pytest.raises(StoreError, match=r"Can't .* [Tt]ry again"):
            act()
    assert time.monotonic() - begun < stretched(120)
    assert way.direct.keys("") == []


def test_a_broken_upload_leaves_nothing(way: Way, tmp_path: Path) -> None:
    store = through(way.proxy.url, way.direct, tries_max=2)
    (tmp_path / "up").write_bytes(_LARGE)
    way.proxy.spoil(Fault.TORN_REQUEST, "PUT", "partNumber=2", times=99)
    with pytest.raises(StoreError, match="Can't upload"):
        store.upload(tmp_path / "up", "adapter")
    assert way.direct.keys("") == []
    assert not way.direct._s3.list_multipart_uploads(Bucket=way.direct.bucket).get("Uploads")


def test_a_transfer_that_crawls_is_given_up(way: Way, tmp_path: Path) -> None:
    (tmp_path / "up").write_bytes(_LARGE)
    way.direct.upload(tmp_path / "up", "adapter")
    way.proxy.spoil(Fault.SLOW_READ, "GET", times=99)
    begun = time.monotonic()
    with pytest.raises(CancelledError), create_transfer_manager(way.store._s3, DOWNLOAD) as manager:
        finish(manager.download(way.store.bucket, "runs/a/adapter", str(tmp_path / "down")), 0.1)
    assert time.monotonic() - begun < stretched(60)
    assert not (tmp_path / "down").exists()


async def test_a_run_of_commits_in_the_rain_ends_as_on_a_dry_day(way: Way, tmp_path: Path) -> None:
    folder = tmp_path / "from"
    folder.mkdir()
    rain = [fault for fault in Fault if fault not in (Fault.SILENCE, Fault.ALTERED_ANSWER)]
    way.proxy.rain(0.1, 0, *rain)
    async with leased(way.store, "m", "wet") as lease:
        for step in range(6):
            (folder / "weights").write_bytes(bytes([step]) * 5000)
            await lease.check()
            commit(way.store, "m", step, folder, "digest", lease=lease.id)
        policy = Retention(keep_last=2, keep_every=0)
        pruned = prune(way.store, ledger_at(5, {1: 1.0}), policy, lease.id)
    way.proxy.clear()
    assert (pruned, committed_steps(way.direct, "m")) == ([2, 3], [0, 1, 4, 5])
    newest = newest_whole(way.direct, "m")
    assert newest is not None and newest.step == 5
    for step in (0, 1, 4, 5):
        restore(way.direct, "m", step, tmp_path / "into")
        assert (tmp_path / "into" / "weights").read_bytes() == bytes([step]) * 5000
    pointer, holder = way.direct.get("m/latest.json"), read_lease(way.direct, "m")
    assert pointer is not None and json.loads(pointer.data) == {"step": 5}
    assert holder is not None and holder.released
    assert sum(way.proxy.counts.values()) - way.proxy.counts["ok"] >= 3
