from pathlib import Path

import polars as pl
import pytest

from precis.documents import Document, Question
from precis.errors import StoreError
from precis.judge.verdict import Answer, Scored, Unscored
from precis.results import (
    KEY,
    SCHEMA,
    Judged,
    Provenance,
    Summary,
    frame_of,
    read_results,
    rows_of,
    write_results,
)
from precis.rewards import zero

DOCUMENT = Document(
    id="d1",
    topic="Local News",
    text="The bridge opened in May.",
    questions=(
        Question("q1", "When did the bridge open?", "In May", answerable=True),
        Question("q2", "Who paid?", "UNANSWERABLE", answerable=False),
    ),
)
SUMMARY = Summary("The bridge opened in May.", seconds=0.5, prompt_tokens=40, usd=0.001)
SCORED = Scored((Answer("q1", "May", True, True), Answer("q2", "the city", False, False)))


def provenance(model: str = "trained", step: int | None = 3) -> Provenance:
    return Provenance("run-1", model, step, "lexical-judge", "batched/1", "p0", "c0", "0.1.0")


def test_a_row_says_what_was_asked_answered_and_ruled() -> None:
    first, second = rows_of(Judged(DOCUMENT, SUMMARY, SCORED), provenance())
    assert set(first) == set(SCHEMA)
    assert (first["question"], first["gold"], first["answer"], first["correct"]) == (
        "When did the bridge open?",
        "In May",
        "May",
        True,
    )
    assert (first["model"], first["step"], first["words"], first["usd"]) == ("trained", 3, 5, 0.001)
    assert (second["answerable"], second["correct"]) == (False, False)


def test_an_unscored_summary_has_a_cause_and_no_verdict() -> None:
    rows = rows_of(Judged(DOCUMENT, SUMMARY, Unscored("timeout", "No answer.")), provenance())
    assert [row["cause"] for row in rows] == ["timeout", "timeout"]
    assert [row["correct"] for row in rows] == [None, None]


def test_a_disqualified_summary_is_wrong_and_says_why() -> None:
    judged = Judged(DOCUMENT, SUMMARY, zero(DOCUMENT), disqualified="over_length")
    rows = rows_of(judged, provenance())
    assert [(row["correct"], row["disqualified"], row["cause"]) for row in rows] == [
        (False, "over_length", None),
        (False, "over_length", None),
    ]


def test_the_order_of_rows_does_not_depend_on_the_order_of_work() -> None:
    rows = [
        *rows_of(Judged(DOCUMENT, SUMMARY, SCORED), provenance()),
        *rows_of(Judged(DOCUMENT, SUMMARY, SCORED), provenance("lead-350", None)),
    ]
    assert frame_of(rows).equals(frame_of(reversed(rows)))
    assert frame_of(rows)["model"].to_list() == ["lead-350", "lead-350", "trained", "trained"]


def test_two_results_for_one_question_are_refused() -> None:
    rows = rows_of(Judged(DOCUMENT, SUMMARY, SCORED), provenance())
    with pytest.raises(StoreError, match="question_id q1"):
        frame_of([*rows, rows[0]])


def test_results_survive_the_file(tmp_path: Path) -> None:
    frame = frame_of(rows_of(Judged(DOCUMENT, SUMMARY, SCORED), provenance("lead-350", None)))
    path = tmp_path / "run-1" / "results.parquet"
    write_results(frame, path)
    assert read_results(path).equals(frame)
    assert read_results([path, path]).height == 2 * frame.height
    assert [each.name for each in path.parent.iterdir()] == ["results.parquet"]


def test_the_same_results_give_the_same_file(tmp_path: Path) -> None:
    rows = rows_of(Judged(DOCUMENT, SUMMARY, SCORED), provenance())
    for name in ("a", "b"):
        write_results(frame_of(rows), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "results.parquet"
    write_results(frame_of(rows_of(Judged(DOCUMENT, SUMMARY, SCORED), provenance())), path)
    before = path.read_bytes()
    with pytest.raises(pl.exceptions.ColumnNotFoundError):
        write_results(pl.DataFrame({"run": ["x"]}), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_is_not_of_results_is_named(tmp_path: Path) -> None:
    foreign = tmp_path / "other.parquet"
    pl.DataFrame({"a": [1]}).write_parquet(foreign)
    with pytest.raises(StoreError, match=r"other\.parquet is not a file of results"):
        read_results(foreign)
    with pytest.raises(StoreError, match=r"missing\.parquet"):
        read_results(tmp_path / "missing.parquet")


def test_no_file_is_no_result() -> None:
    assert read_results([]).schema == SCHEMA
    assert set(KEY) <= set(SCHEMA)
