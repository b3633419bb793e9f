"""The lexical judge on prose in the manner of RepLiQA that nobody made for it.

The three `prose_tuning` files, by different hands, are what it was tuned on; the questions of the
third are in words that the texts don't use.
`prose_heldout.parquet` was kept away from whoever tuned it, and is to be: it is measured, never
looked into.
"""

from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.lexical_judge import Share, accuracies, false_accepts
from precis.config import DocumentsConfig
from precis.records.documents import Document, read_documents
from precis.rehearsal.judges import reader
from precis.text import count_words, sentences

DATA = Path(__file__).parents[3] / "data"
LEAST = {
    "prose_tuning.parquet": 0.62,
    "prose_tuning_2.parquet": 0.62,
    "prose_tuning_3.parquet": 0.5,
    "prose_heldout.parquet": 0.6,
}
"""For each file the least share of its questions that is read from the full documents."""


@pytest.fixture(scope="module", params=sorted(LEAST))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def documents(name: str) -> Sequence[Document]:
    return read_documents(DocumentsConfig(source=str(DATA / name)))


def test_the_judge_reads_prose(name: str, documents: Sequence[Document]) -> None:
    full, lead, random, _ = (_mean(share) for share in accuracies(documents))
    assert full >= LEAST[name]
    assert full > lead + 0.2
    assert full > random + 0.2


def test_an_answer_is_what_a_person_would_say(documents: Sequence[Document]) -> None:
    for document in documents:
        for question in document.questions:
            said = reader.answer(document.text, question.text)
            assert count_words(said) <= 60
            assert len(sentences(said)) <= 2


def test_wrong_answers_are_seldom_taken_for_right(documents: Sequence[Document]) -> None:
    shares = {share.name: _mean(share) for share in false_accepts(documents)}
    assert shares["accepted: all of them"] <= 0.02
    assert max(shares.values()) <= 0.1


def _mean(share: Share) -> float:
    assert share.interval is not None
    return share.interval.mean
