"""What is set apart for a warm start, and what a file of summaries may hold."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pyarrow import Table, parquet

from precis.config import TrainConfig, WarmStartConfig
from precis.environments.demonstrations import WarmStart
from precis.environments.summaries.prompt import scenario_of
from precis.environments.summaries.warm_start import prepare_warm_start
from precis.errors import DocumentsError
from precis.records.documents import Corpus, Document
from precis.records.nouns import Nouns
from precis.records.rollout import Scenario
from precis.rollouts.sample import draw_batch
from tests.support.bridges import CORPUS

WORDS_MAX = 20


def prepared(corpus: Corpus = CORPUS, **settings: Any) -> tuple[WarmStart, Corpus]:
    warm_start, apart = prepare_warm_start(WarmStartConfig(**settings), corpus, WORDS_MAX)
    assert warm_start is not None
    return warm_start, apart


def written(folder: Path, *rows: dict[str, Any]) -> str:
    path = folder / "summaries.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return str(path)


def ids(known: Sequence[Document | Scenario]) -> set[str]:
    return {one.id for one in known}


def test_what_is_set_apart_is_drawn_by_no_step_and_never_held_out() -> None:
    warm_start, corpus = prepared(scenarios=5)
    assert len(warm_start.scenarios) == 5
    scenarios = list(map(scenario_of, corpus.drawn))
    drawn = {one.id for step in range(20) for one in draw_batch(scenarios, 1, step, 3)}
    assert drawn == ids(CORPUS.train) - ids(warm_start.scenarios)
    assert not ids(warm_start.scenarios) & ids(CORPUS.validation)
    assert prepared(scenarios=5) == (warm_start, corpus)


def test_something_must_be_left_for_the_steps(tmp_path: Path) -> None:
    with pytest.raises(DocumentsError, match="sets 12 documents apart, of 12"):
        prepared(scenarios=12)
    rows = [{"document_id": one.id, "summary": "The mayor."} for one in CORPUS.train]
    with pytest.raises(DocumentsError, match="leaves no document for the steps"):
        prepared(source="file", file=written(tmp_path, *rows))


def test_a_files_documents_are_found_by_id_and_by_text(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        {"document_id": "d3", "summary": "The mayor opened 3."},
        {"text": "The mayor  opened\nbridge 7.", "summary": "The mayor opened 7."},
        {"text": "A harbour was built in Ost.", "summary": "A harbour was built."},
    )
    warm_start, corpus = prepared(source="file", file=file)
    assert [one.cause for one in warm_start.given] == ["", "", ""]
    assert [one.id for one in warm_start.scenarios[:2]] == ["d3", "d7"]
    assert warm_start.scenarios[2]["text"] == "A harbour was built in Ost."
    assert ids(corpus.drawn) == ids(CORPUS.train) - {"d3", "d7"}


def test_a_held_out_document_is_left_out_however_it_is_named(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        {"document_id": "d12", "summary": "The mayor opened 12."},
        {"text": "The mayor opened bridge 13. ", "summary": "The mayor opened 13."},
        {"document_id": "mine", "text": "The mayor opened bridge 14.", "summary": "14."},
        {"text": "NEWS: THE MAYOR OPENED BRIDGE 15!", "summary": "The mayor opened 15."},
        {"text": "The mayor opened bridge 150.", "summary": "The mayor opened 150."},
        {"document_id": "d3", "text": "The mayor closed bridge 3.", "summary": "Closed."},
        {"document_id": "d1", "summary": "The mayor opened 1."},
        {"document_id": "unknown", "summary": "Nobody knows."},
        {"document_id": "d2", "summary": "mayor " * 21},
    )
    warm_start, _ = prepared(source="file", file=file)
    causes = [one.cause for one in warm_start.given]
    assert causes[:4] == ["held_out"] * 4
    assert causes[4:] == ["", "other_text", "", "no_such_document", "over_length"]
    assert "4 left out: held_out" in warm_start.describe(Nouns())
    [own] = [one for one in warm_start.scenarios if one.id != "d1"]
    assert own["text"] == "The mayor opened bridge 150."
    assert ids(warm_start.scenarios) == {"d1", own.id}, "others are set apart for nothing"


def test_a_file_may_be_parquet_and_its_first_summaries_taken(tmp_path: Path) -> None:
    path = tmp_path / "summaries.parquet"
    rows = [{"document_id": f"d{n}", "summary": f"The mayor opened {n}."} for n in range(5)]
    parquet.write_table(Table.from_pylist(rows), path)
    warm_start, _ = prepared(source="file", file=str(path), scenarios=2)
    assert [one.id for one in warm_start.scenarios] == ["d0", "d1"]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ('{"document_id": "d1"}', "row 1, column 'summary': missing or empty"),
        ('{"summary": "s"}', "row 1: give the document's 'document_id' or its 'text'"),
    ],
)
def test_a_file_that_can_not_be_used_says_where(
    content: str, complaint: str, tmp_path: Path
) -> None:
    (tmp_path / "summaries.jsonl").write_text(content)
    with pytest.raises(DocumentsError, match=complaint):
        prepared(source="file", file=str(tmp_path / "summaries.jsonl"))


def test_a_file_that_is_not_there_or_of_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DocumentsError, match="can't be read"):
        prepared(source="file", file=str(tmp_path / "missing.jsonl"))
    with pytest.raises(DocumentsError, match=r"not one of \.csv, \.json, \.jsonl, \.parquet"):
        prepared(source="file", file="summaries.txt")


def test_a_run_is_told_apart_by_what_its_file_says_not_by_where_it_lies(tmp_path: Path) -> None:
    def identity(name: str, summary: str) -> str:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        file = written(folder, {"document_id": "d1", "summary": summary})
        settings = {"source": "file", "file": file}
        config = TrainConfig.model_validate({"store": "/s", "warm_start": settings})
        return config.identity("k", {}, prepared(source="file", file=file)[0].digest)

    assert identity("a", "The mayor.") == identity("b", "The mayor.")
    assert identity("a", "The mayor.") != identity("a", "The bridge.")
