"""What is read of runs whose store is a bucket: by other ways than one object after the other."""

from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from cli.deletion import delete
from precis.errors import StoreError, StoreRefused
from precis.records.results import results_before, scan_results
from precis.records.trajectories import scan_trajectories
from precis.runs.export import export
from precis.runs.overview import kept_checkpoints, list_runs
from precis.runs.reports import report_file
from precis.store.files import read_files
from precis.store.s3 import S3Store
from tests.services.s3_server import new_store, settings_for
from tests.support.runs import make_run
from tests.unit.records.test_results import stored

pytestmark = pytest.mark.services


@pytest.fixture
def store(s3_url: str) -> S3Store:
    return new_store(s3_url)


def test_nights_are_one_lazy_table(store: S3Store) -> None:
    frames = [stored(store, night, correct=night != 2) for night in (1, 2, 3)]
    assert scan_results(store, "m").collect().equals(pl.concat(frames))
    later = pl.col("night").dt.day() > 1
    right = scan_results(store, "m").filter(later).group_by("run").agg(pl.col("score").sum())
    assert right.sort("run").collect()["score"].to_list() == [0, 1]
    tonight = "20261103T030000Z-0000"
    before = results_before(store, "m", tonight, frames[2], 7)
    assert before.equals(pl.concat(frames[:2]))
    impatient = {"tries_max": 1, "timeout_s": 1.0, "aws_endpoint_url": "http://127.0.0.1:9"}
    gone = store.settings.model_copy(update=impatient)
    with pytest.raises(StoreError):
        results_before(S3Store(store.bucket, store.prefix, gone), "m", tonight, frames[2], 7)


async def test_a_run_is_listed_exported_and_deleted_and_its_report_brought(
    store: S3Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRECIS_HOME", str(tmp_path / "home"))
    began = datetime.now(UTC).replace(microsecond=0)  # S3 tells whole seconds
    make_run(store, "m", 2)
    store.put("m/benchmarks/0001/report.html", b"<h1>")
    (run,), _ = list_runs(store)
    assert (run.model, run.step, run.held_by) == ("m", 2, None)
    assert began <= run.written <= datetime.now(UTC)
    assert [one.damage for one in kept_checkpoints(store, "m")] == [""] * 3
    frame = scan_trajectories(store, "m", "train").filter(cause="rate_limited").collect()
    assert frame.select("step", "policy", "reward").rows() == [(0, "m", None), (1, "m", None)]
    assert all(file.exists() for file in export(store, "m", tmp_path / "out"))
    assert report_file(store, "m").read_bytes() == b"<h1>"

    async def elsewhere() -> int:
        return 0

    await delete(store, "m", elsewhere)
    assert store.keys("m/") == []


def test_what_cannot_be_read_is_a_sentence(s3_url: str, store: S3Store) -> None:
    with pytest.raises(StoreError, match="it is not there"):
        read_files(store, ["m/no-such-key"])
    nowhere = S3Store("precis-nowhere", "", settings_for(s3_url))
    with pytest.raises(StoreRefused, match="no such bucket"):
        read_files(nowhere, ["m/ledger.json"])
