"""Reading RepLiQA's schema: what is understood, and what is refused with a place."""

import csv
import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from precis.config import DocumentsConfig
from precis.errors import DocumentsError
from precis.records.documents import Corpus, Document, Question, load_corpus, read_documents
from precis.records.rows import COLUMNS, read_objects
from tests.support.corpora import Rows, corpus, rows, source, write_jsonl


def write_csv(path: Path, content: Rows) -> Path:
    with path.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.DictWriter(lines, list(content[0]))
        writer.writeheader()
        writer.writerows(content)
    return path


def write_parquet(path: Path, content: Rows) -> Path:
    pq.write_table(pa.Table.from_pylist(content), path)
    return path


WRITERS = {"jsonl": write_jsonl, "csv": write_csv, "parquet": write_parquet}


@pytest.mark.parametrize("kind", WRITERS)
def test_every_format_reads_the_same(tmp_path: Path, kind: str) -> None:
    content = rows()
    content[0]["answer"] = "0042"  # looks like a number, and is text
    documents = read_documents(source(WRITERS[kind](tmp_path / f"corpus.{kind}", content)))
    assert [document.id for document in documents] == ["d0", "d1", "d2", "d3"]
    assert documents[0].questions[0].answer == "0042"
    assert documents[0].text == "Text of document 0."


def test_a_cell_of_csv_may_be_long(tmp_path: Path) -> None:
    content = rows()
    content[1]["document_extracted"] = "x" * 200_000
    assert len(list(read_objects(write_csv(tmp_path / "corpus.csv", content)))) == len(content)


def test_a_folder_is_read_file_by_file(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "a.jsonl", rows()[:4])
    write_csv(tmp_path / "b.csv", rows()[4:])
    assert len(read_documents(source(tmp_path))) == 4
    (tmp_path / "c.jsonl").mkdir()
    with pytest.raises(DocumentsError, match=r"c\.jsonl can't be read as json"):
        read_documents(source(tmp_path))


@pytest.mark.parametrize(
    "golden", ["UNANSWERABLE", "unanswerable", "The answer is not found in the document."]
)
def test_unanswerable_questions_are_marked(tmp_path: Path, golden: str) -> None:
    content = rows()
    content[1]["answer"] = golden
    first = read_documents(source(write_jsonl(tmp_path / "c.jsonl", content)))[0]
    assert [question.answerable for question in first.questions] == [True, False]
    assert first.questions[1].answer == "UNANSWERABLE"


@pytest.mark.parametrize("kind", WRITERS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"document_extracted": " "}, "'document_extracted': is empty"),
        ({"question": ""}, "'question': is empty"),
        ({"question_id": "d0-q0"}, "'question_id': 'd0-q0' is already that of {}, row 1"),
        ({"document_id": "d0"}, "'document_extracted': differs from that of {}, row 1"),
    ],
)
def test_a_bad_row_is_named(
    tmp_path: Path, kind: str, change: dict[str, str], message: str
) -> None:
    content = rows()
    content[2] |= change
    path = WRITERS[kind](tmp_path / f"corpus.{kind}", content)
    with pytest.raises(DocumentsError) as caught:
        read_documents(source(path))
    assert f"{path}, row 3, column {message.format(path)}" in str(caught.value)
    for row in content:
        del row["long_answer"]
    WRITERS[kind](path, content)
    with pytest.raises(DocumentsError, match=r"row 1, column 'long_answer': missing") as caught:
        read_documents(source(path))
    assert "elsewhere if the texts of its folder are the documents" in str(caught.value)


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_what_is_not_utf8_is_named_by_row_and_column(tmp_path: Path, kind: str) -> None:
    path = WRITERS[kind](tmp_path / f"corpus.{kind}", rows())
    path.write_bytes(path.read_bytes().replace(b"Text of document 1", b"T\xe9xt of document 1"))
    with pytest.raises(DocumentsError, match=r"row 3, column 'document_extracted': not UTF-8"):
        read_documents(source(path))


def test_a_file_that_is_no_json_is_named(tmp_path: Path) -> None:
    path = tmp_path / "broken.jsonl"
    whole = json.dumps(dict.fromkeys(COLUMNS, "d0"))
    path.write_text(f'{whole}\n\n{{"document_id": "d1"\n')
    with pytest.raises(DocumentsError, match=r"broken\.jsonl can't be read as json \(line 3: "):
        read_documents(source(path))


def damaged(whole: bytes, no_rows: bytes) -> dict[str, bytes]:
    """Files that are no corpus, by their names."""
    header = ",".join(COLUMNS).encode()
    return {
        "empty.parquet": b"",
        "garbage.parquet": b"no parquet at all" * 20,
        "cut-off.parquet": whole[: len(whole) // 2],
        "rotten.parquet": whole[:4] + b"\x00" * 200 + whole[204:],
        "empty.jsonl": b"",
        "blank.jsonl": b"\n\n",
        "numbers.jsonl": b"1\n2\n",
        "empty.csv": b"",
        "header.csv": header + b"\n",
        "no-rows.parquet": no_rows,
        "open-quote.csv": header + b'\n"a,b,c\n',
    }


@pytest.mark.parametrize("name", damaged(b"", b""))
def test_a_damaged_or_empty_file_gets_one_sentence(tmp_path: Path, name: str) -> None:
    whole = write_parquet(tmp_path / "whole.parquet", rows()).read_bytes()
    path = tmp_path / name
    pq.write_table(pa.Table.from_pylist(rows()).slice(0, 0), tmp_path / "none.parquet")
    path.write_bytes(damaged(whole, (tmp_path / "none.parquet").read_bytes())[name])
    with pytest.raises(DocumentsError) as caught:
        load_corpus(source(path))
    said = str(caught.value)
    assert said.startswith(str(path)) and said.endswith(".")
    assert "can't be read as" in said or "holds no rows" in said
    assert "\n" not in said and ". " not in said


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "mixed.jsonl"])
def test_a_list_for_an_answer_is_named(tmp_path: Path, kind: str) -> None:
    content = rows()
    lists = content[2:3] if kind == "mixed.jsonl" else content
    content[4]["answer"] = 42 if kind == "mixed.jsonl" else "42"  # a number can be read as text
    for row in lists:
        row["answer"] = [row["answer"]]
    path = WRITERS[kind.rpartition(".")[2]](tmp_path / f"lists.{kind}", content)
    number = content.index(lists[0]) + 1
    with pytest.raises(DocumentsError, match=rf"row {number}, column 'answer': is a list"):
        load_corpus(source(path))


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("no-such-file.parquet", "neither a file or folder here nor a data set"),
        ("no-such-folder/", "neither a file or folder here nor a data set"),
        ("../no-such-folder", "neither a file or folder here nor a data set"),
        (" ", "No documents are named"),
        ("~no-such-user/corpus.csv", "neither a file or folder here nor a data set"),
        ("a text in place of a path " * 20, "neither a file or folder here nor a data set"),
    ],
)
def test_what_is_neither_file_nor_data_set_is_refused(named: str, said: str) -> None:
    with pytest.raises(DocumentsError, match=said):
        load_corpus(DocumentsConfig(source=named, train_size=1, val_size=1))


@pytest.mark.parametrize(
    ("content", "sizes", "said"),
    [
        (rows(4), (3, 2), r"4 documents, but train_size 3 \+ val_size 2"),
        (rows(1), (1, 1), "has 1 document: give at least 2"),
        (
            [{**row, "answer": "UNANSWERABLE"} for row in rows()],
            (3, 2),
            "4 documents and not one question that its document answers",
        ),
    ],
)
def test_a_corpus_that_is_too_small_says_what_to_change(
    tmp_path: Path, content: Rows, sizes: tuple[int, int], said: str
) -> None:
    path = write_jsonl(tmp_path / "c.jsonl", content)
    with pytest.raises(DocumentsError, match=said):
        load_corpus(source(path, train_size=sizes[0], val_size=sizes[1]))


def test_no_document_is_both_trained_on_and_held_out() -> None:
    both = corpus()
    assert not set(both.train) & set(both.validation)


def test_the_digest_follows_from_the_content_and_not_from_how_documents_are_written_down() -> None:
    question = Question("q", "Who?", "the mayor", True, "The mayor did.")
    known = Corpus((Document("a", "News", "Text.", (question,)),), ())

    @dataclass(frozen=True)
    class Annotated(Document):
        annotation: str = "new"

    annotated = Annotated(**vars(known.train[0]))
    assert Corpus((annotated,), ()).digest == known.digest
    for changed in (replace(question, answer="she"), replace(question, answerable=False)):
        other = replace(known.train[0], questions=(changed,))
        assert Corpus((other,), ()).digest != known.digest


def test_a_hub_that_cannot_be_reached_is_named_as_the_cause() -> None:
    read = (
        "from precis.config import DocumentsConfig\n"
        "from precis.records.documents import read_documents\n"
        "read_documents(DocumentsConfig(source='owner/name'))"
    )
    # Its client reads the address once, when it is imported.
    environment = {**os.environ, "HF_ENDPOINT": "http://127.0.0.1:9"}
    done = subprocess.run(
        [sys.executable, "-c", read], env=environment, capture_output=True, text=True, timeout=120
    )
    assert "can't be loaded from the Hub: it can't be reached. Check its name" in done.stderr
