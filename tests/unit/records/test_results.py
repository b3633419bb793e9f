from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pytest
from pyarrow import parquet

from precis.errors import StoreError
from precis.records.questions import QUESTIONS, answers_in
from precis.records.results import (
    SCHEMA,
    frame_of,
    newest_results,
    read_results,
    results_before,
    scan_results,
    write_results,
)
from precis.records.verdict import Answer, Scored
from precis.store import FolderStore, Store, open_store
from tests.support.summaries import (
    DOCUMENT,
    SUMMARY,
    JudgedSummary,
    provenance,
    questions_of,
    row_of,
)

SCORED = Scored((Answer("q1", "May", True, True), Answer("q2", "the city", False, False)))


def test_the_second_table_says_what_was_asked_answered_and_ruled() -> None:
    judged = JudgedSummary(DOCUMENT, SUMMARY, SCORED)
    questions = questions_of([judged], provenance())
    assert questions.schema == QUESTIONS
    first, second = questions.to_dicts()
    assert (first["question"], first["gold"]) == ("When did the bridge open?", "In May")
    assert (first["answer"], first["correct"]) == ("May", True)
    assert (second["answerable"], second["correct"]) == (False, False)
    both = answers_in(frame_of([row_of(judged, provenance())]), questions)
    assert both["summary"].to_list() == [SUMMARY.text] * 2
    assert both["document_id"].to_list() == ["d1", "d1"]


def test_two_results_for_one_scenario_are_refused() -> None:
    row = row_of(JudgedSummary(DOCUMENT, SUMMARY, SCORED), provenance())
    with pytest.raises(StoreError, match="scenario_id d1"):
        frame_of([row, row])


def test_results_survive_their_file_and_another_file_is_named(tmp_path: Path) -> None:
    row = row_of(JudgedSummary(DOCUMENT, SUMMARY, SCORED), provenance("lead-350", None))
    path = tmp_path / "results.parquet"
    write_results(frame_of([row]), path)
    assert read_results(path).equals(frame_of([row]))
    foreign = tmp_path / "other.parquet"
    pl.DataFrame({"a": [1]}).write_parquet(foreign)
    with pytest.raises(StoreError, match=r"other\.parquet is not a file of results"):
        read_results(foreign)
    with pytest.raises(StoreError, match=r"missing\.parquet"):
        read_results(tmp_path / "missing.parquet")


def stored(store: Store, night: int, correct: bool = True) -> pl.DataFrame:
    """A night's results in the store."""
    began = datetime(2026, 11, night, 3, tzinfo=UTC)
    told = replace(provenance(), run=f"202611{night:02}T030000Z-0000", night=began)
    answers = (Answer("q1", "May", correct, True), Answer("q2", "the city", False, False))
    frame = frame_of([row_of(JudgedSummary(DOCUMENT, SUMMARY, Scored(answers)), told)])
    with TemporaryDirectory() as folder:
        write_results(frame, Path(folder) / "results.parquet")
        store.upload(Path(folder) / "results.parquet", f"m/results/{told.run}.parquet")
    return frame


def test_all_nights_are_read_as_one_lazy_table(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    frames = [stored(store, night) for night in (1, 2, 3)]
    scanned = scan_results(store, "m")
    assert scanned.collect_schema() == SCHEMA
    assert scanned.collect().equals(pl.concat(frames))
    later = scanned.filter(pl.col("night") > datetime(2026, 11, 2, 12, tzinfo=UTC)).select("run")
    assert later.unique().collect().rows() == [("20261103T030000Z-0000",)]
    older = frames[0].drop("served_by", "kept")  # as an older version has written them
    older.write_parquet(tmp_path / "m" / "results" / "20261101T030000Z-0000.parquet")
    assert scan_results(store, "m").collect()["kept"].null_count() == len(older)
    assert scan_results(store, "another").collect().schema == SCHEMA


def test_the_newest_results_are_read_from_the_newest_night_back(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    frames = {night: stored(store, night, correct=night < 3) for night in (1, 2, 3)}
    assert newest_results(store, "m", pl.col("model") == "nobody").schema == SCHEMA
    store.put("m/results/20261101T030000Z-0000.parquet", b"not parquet, and not read")
    assert newest_results(store, "m", pl.col("score") > 0).equals(frames[2])
    assert newest_results(store, "another", pl.lit(True)).is_empty()


def test_a_night_by_other_rules_is_passed_over_without_its_texts(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    tonight = stored(store, 3)
    assert results_before(store, "m", "tonight", tonight, 1).equals(tonight)
    file = tmp_path / "m/results/20261103T030000Z-0000.parquet"
    whole = file.read_bytes()
    chunk = parquet.read_metadata(file).row_group(0).column(SCHEMA.names().index("text"))
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    unreadable = b"\xff" * chunk.total_compressed_size
    file.write_bytes(whole[:start] + unreadable + whole[start + len(unreadable) :])
    other = tonight.with_columns(protocol=pl.lit("other rules"))
    assert results_before(store, "m", "tonight", other, 1).is_empty()
    with pytest.raises(StoreError):
        results_before(store, "m", "tonight", tonight, 1)


def test_a_night_that_is_no_results_is_named(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    stored(store, 1)
    store.put("m/results/20261102T030000Z-0000.parquet", b"not parquet")
    with pytest.raises(StoreError, match=r"a night in .*/m/results/20261102T03.* can't be read"):
        newest_results(store, "m", pl.col("score") > 0)
