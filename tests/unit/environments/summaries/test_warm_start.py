"""What a warm start's file of summaries may hold."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyarrow import Table, parquet

from precis.config import WarmStartConfig
from precis.environments.demonstrations import WarmStart, prepare_warm_start
from precis.errors import DocumentsError
from precis.records.nouns import Nouns
from tests.support.bridges import CORPUS
from tests.support.environments import summaries


def prepared(file: Path, *rows: dict[str, Any], **settings: Any) -> WarmStart:
    if rows:
        file.write_text("\n".join(json.dumps(row) for row in rows))
    config = WarmStartConfig(source="file", file=str(file), **settings)
    found = prepare_warm_start(config, summaries(CORPUS, None, words_max=20))
    assert found is not None
    return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "summaries.jsonl"


def test_a_files_documents_are_found_by_id_and_by_text(file: Path) -> None:
    warm_start = prepared(
        file,
        {"document_id": "d3", "summary": "The mayor opened 3."},
        {"text": "The mayor  opened\nbridge 7.", "summary": "The mayor opened 7."},
        {"text": "A harbour was built in Ost.", "summary": "A harbour was built."},
    )
    assert [one.cause for one in warm_start.given] == ["", "", ""]
    assert [one.id for one in warm_start.scenarios[:2]] == ["d3", "d7"]
    assert warm_start.scenarios[2]["text"] == "A harbour was built in Ost."


def test_a_held_out_document_is_left_out_however_it_is_named(file: Path) -> None:
    warm_start = prepared(
        file,
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
    causes = [one.cause for one in warm_start.given]
    assert causes[:4] == ["held_out"] * 4
    assert causes[4:] == ["", "other_text", "", "no_such_document", "over_length"]
    assert "4 left out: held_out" in warm_start.describe(Nouns())
    own, other = warm_start.scenarios
    assert own["text"] == "The mayor opened bridge 150."
    assert other.id == "d1", "others are set apart for nothing"


def test_a_file_may_be_parquet_and_its_first_summaries_taken(tmp_path: Path) -> None:
    path = tmp_path / "summaries.parquet"
    rows = [{"document_id": f"d{n}", "summary": f"The mayor opened {n}."} for n in range(5)]
    parquet.write_table(Table.from_pylist(rows), path)
    assert [one.id for one in prepared(path, scenarios=2).scenarios] == ["d0", "d1"]


@pytest.mark.parametrize(
    ("name", "row", "complaint"),
    [
        ("a.jsonl", {"document_id": "d1"}, "row 1, column 'summary': is empty"),
        ("a.jsonl", {"summary": "s"}, "row 1: give the document's 'document_id' or its 'text'"),
        ("missing.jsonl", None, "can't be read"),
        ("a.txt", {"summary": "s"}, r"not one of \.csv, \.jsonl, \.parquet"),
    ],
)
def test_a_file_that_can_not_be_used_says_why(
    name: str, row: dict[str, Any] | None, complaint: str, tmp_path: Path
) -> None:
    with pytest.raises(DocumentsError, match=complaint):
        prepared(tmp_path / name, *([row] if row else []))
