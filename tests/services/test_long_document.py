"""A document as long as three novels, in a rehearsal beside others of the usual length."""

import json
from pathlib import Path

import pytest

from precis.config import DocumentsConfig
from precis.records.documents import Document, read_documents
from precis.words import count_words
from tests.services.conftest import Precis

WORDS = 210_000
COUNT = 12


def write_corpus(path: Path) -> None:
    """Documents of the bundled corpus, of which the fourth has all others around its text."""
    documents = read_documents(DocumentsConfig(source="bundled"))
    text = "\n\n".join(one.text for one in documents)
    text = "\n\n".join([documents[3].text, text, text])
    assert count_words(text) > WORDS
    rows = []
    for place, document in enumerate(documents[:COUNT]):
        rows += rows_of(document, text if place == 3 else document.text)
    path.write_text("\n".join(map(json.dumps, rows)))


def rows_of(document: Document, text: str) -> list[dict[str, str]]:
    return [
        {
            "document_id": document.id,
            "document_topic": document.topic,
            "document_path": "",
            "document_extracted": text,
            "question_id": question.id,
            "question": question.text,
            "answer": question.answer,
            "long_answer": "",
        }
        for question in document.questions
    ]


@pytest.mark.long  # minutes on a busy machine
@pytest.mark.parametrize("held_out", [1, COUNT - 1], ids=["trained on", "held out"])
def test_a_rehearsal_works_on_a_very_long_document_and_says_where_it_is(
    precis: Precis, held_out: int, tmp_path: Path
) -> None:
    corpus = tmp_path / "long.jsonl"
    write_corpus(corpus)
    output = precis.run(
        *("rehearse", "--steps", "2", "--documents", str(corpus), "--store", str(tmp_path)),
        TRAIN_SIZE=str(COUNT - held_out),
        VAL_SIZE=str(held_out),
    )
    assert "training: step " in output and "benchmarking: step 2 of 2" in output
    assert "Traceback" not in output
