"""Studying, forking and restarting runs whose store is a bucket."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from precis.config import FromCheckpoint
from precis.environments.trajectories import put_trajectories
from precis.errors import ConfigError, StoreError, StoreRefused
from precis.records.ledger import ledger_key, load_ledger
from precis.records.manifests import manifest_key
from precis.records.trajectories import scan_trajectories
from precis.run.checkpoints import committed_steps, restore
from precis.run.export import export
from precis.run.overview import kept_checkpoints, list_runs
from precis.run.repair import repair
from precis.run.reports import report_file
from precis.run.restart import restart
from precis.store.files import read_files
from precis.store.s3 import S3Store
from precis.training.deletion import delete
from precis.training.fork import fork, origin_of
from tests.services.s3_server import new_store, s3_server, settings_for
from tests.support.newest_checkpoint import file_key
from tests.support.rollouts import ROLLOUTS
from tests.support.runs import make_run

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with s3_server() as url:
        yield url


@pytest.fixture
def store(server: str) -> S3Store:
    return new_store(server)


def test_trajectories_are_read_from_a_bucket(store: S3Store) -> None:
    for step in (1, 2):
        put_trajectories(store, "m", "train", step, ROLLOUTS, f"m@{step}")
    frame = scan_trajectories(store, "m", "train").filter(cause="rate_limited").collect()
    assert frame.select("step", "policy", "reward").rows() == [(1, "m@1", None), (2, "m@2", None)]


def test_runs_in_a_bucket_are_listed_and_exported(store: S3Store, tmp_path: Path) -> None:
    make_run(store, "m", 2)
    (run,), _ = list_runs(store, datetime.now(UTC))
    assert (run.model, run.step, run.held_by) == ("m", 2, None)
    since = datetime.now(UTC) - run.written
    assert timedelta(minutes=-1) < since < timedelta(minutes=1)
    assert [one.damage for one in kept_checkpoints(store, "m")] == [""] * 3
    assert len(export(store, "m", tmp_path, checkpoint=1)) == 7
    assert (tmp_path / "checkpoints" / "0001" / "weights").read_bytes() == b"\x01" * 1000


async def test_a_report_in_a_bucket_is_brought_and_a_run_there_is_deleted(
    store: S3Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRECIS_HOME", str(tmp_path))
    make_run(store, "m", 1)
    store.put("m/benchmarks/0001/report.html", b"<h1>")
    assert report_file(store, "m").read_bytes() == b"<h1>"

    async def elsewhere() -> int:
        return 0

    await delete(store, "m", elsewhere)
    assert store.keys("m/") == []


def test_a_run_is_forked_within_a_bucket(store: S3Store, tmp_path: Path) -> None:
    make_run(store, "m", 2)
    origin = origin_of(store, FromCheckpoint(model="m", step=1))
    checkpoint = fork(store, "forked", origin, "other settings")
    assert fork(store, "forked", origin, "other settings") == checkpoint
    restore(store, "forked", 0, tmp_path / "restored")
    assert (tmp_path / "restored" / "weights").read_bytes() == b"\x01" * 1000


async def test_a_run_in_a_bucket_is_restarted(store: S3Store) -> None:
    make_run(store, "m", 3)
    ledger = await restart(store, "m", 1)
    assert load_ledger(store, "m") == ledger
    assert (ledger.next_step, committed_steps(store, "m")) == (1, [0, 1])
    weights = [file_key(store, "m", step, "weights") for step in (0, 1)]
    manifests = [manifest_key("m", step) for step in (0, 1)]
    assert sorted(store.keys("m/")) == [
        *sorted(weights + manifests),
        "m/latest.json",
        "m/lease.json",
        "m/ledger.json",
        "m/trajectories/train/0000.parquet",
    ]


def test_what_cannot_be_read_is_a_sentence(server: str, store: S3Store) -> None:
    with pytest.raises(StoreError, match="it is not there"):
        read_files(store, ["m/no-such-key"])
    nowhere = S3Store("precis-nowhere", "", settings_for(server))
    with pytest.raises(StoreRefused, match="no such bucket"):
        read_files(nowhere, ["m/ledger.json"])


async def test_the_ledger_of_a_run_in_a_bucket_is_rebuilt(store: S3Store) -> None:
    make_run(store, "m", 2)
    before = load_ledger(store, "m")
    weights = file_key(store, "m", 1, "weights")
    store.put(weights, b"\x02" * 1000)  # as many bytes as there were
    store.put(ledger_key("m"), b"garbage")
    repaired = await repair(store, "m")
    ledger = load_ledger(store, "m")
    assert (ledger.next_step, ledger.steps) == (2, before.steps)
    assert sorted(ledger.checkpoints) == [0, 2]
    assert "differs from its manifest" in repaired.damage[0]
    kept = store.get(repaired.kept)
    assert kept is not None and kept.data == b"garbage"
    with pytest.raises(ConfigError, match="is intact"):
        await repair(store, "m")
