"""Results of many nights on S3, read lazily over HTTP."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from precis.errors import StoreError
from precis.records.results import (
    frame_of,
    results_before,
    scan_results,
    write_results,
)
from precis.records.verdict import Answer, Scored
from precis.store.s3 import S3Store
from tests.services.s3_server import new_store, s3_server
from tests.support.answers import DOCUMENT, SUMMARY, provenance
from tests.support.summaries import JudgedSummary, row_of


def put_night(store: S3Store, night: int, folder: Path) -> pl.DataFrame:
    began = datetime(2026, 11, night, 3, tzinfo=UTC)
    told = replace(provenance(), run=f"202611{night:02}T030000Z-0000", night=began)
    answers = (Answer("q1", "May", night != 2, True), Answer("q2", "x", False, False))
    frame = frame_of([row_of(JudgedSummary(DOCUMENT, SUMMARY, Scored(answers)), told)])
    write_results(frame, folder / "results.parquet")
    store.upload(folder / "results.parquet", f"m/results/{told.run}.parquet")
    return frame


def test_nights_on_s3_are_one_lazy_table(tmp_path: Path) -> None:
    with s3_server() as url:
        store = new_store(url)
        frames = [put_night(store, night, tmp_path) for night in (1, 2, 3)]
        assert scan_results(store, "m").collect().equals(pl.concat(frames))
        later = pl.col("night").dt.day() > 1
        right = scan_results(store, "m").filter(later).group_by("run").agg(pl.col("score").sum())
        assert right.sort("run").collect()["score"].to_list() == [0, 1]
        before = results_before(store, "m", "20261103T030000Z-0000", 7)
        assert before.equals(pl.concat(frames[:2]))
    with pytest.raises(StoreError):
        results_before(replaced(store), "m", "20261103T030000Z-0000", 7)


def replaced(store: S3Store) -> S3Store:
    """The same store by an impatient client, whose server is gone."""
    settings = store.settings.model_copy(update={"tries_max": 1, "timeout_s": 1.0})
    return S3Store(store.bucket, store.prefix, settings)
