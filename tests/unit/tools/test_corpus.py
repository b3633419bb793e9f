"""The bundled corpus: made again to the same bytes, and with no place that gives answers away."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest

from bench.lexical_judge import right
from precis.records.documents import Document
from precis.rehearsal.judges.words import has_digit
from precis.text import WORDS_MAX, count_words, sentences
from tools.corpus.make import PATH, corpus, write


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    return corpus()


def test_the_program_makes_the_bundled_corpus_again(tmp_path: Path) -> None:
    again = tmp_path / "again.parquet"
    write(again)
    assert pq.read_table(again).equals(pq.read_table(PATH))
    if pq.read_metadata(again).created_by == pq.read_metadata(PATH).created_by:
        assert again.read_bytes() == PATH.read_bytes()


def test_the_reader_answers_from_the_full_document(documents: list[Document]) -> None:
    assert _accuracy(documents[::6], lambda document: document.text) >= 0.95


def test_a_summary_can_hold_every_answer(documents: list[Document]) -> None:
    def answering(document: Document) -> str:
        return "\n".join(one.long_answer for one in document.questions if one.answerable)

    assert all(count_words(answering(document)) <= WORDS_MAX for document in documents)
    assert _accuracy(documents, answering) >= 0.95


def test_no_fixed_rule_comes_near_to_the_full_document(documents: list[Document]) -> None:
    chance = Random(7)
    rules: dict[str, tuple[Callable[[Sequence[str], int], float], float]] = {
        "lead": (lambda found, place: place, 0.48),
        "tail": (lambda found, place: -place, 0.48),
        "random": (lambda found, place: chance.random(), 0.5),
        "digits": (lambda found, place: not has_digit(found[place]), 0.62),
        "capitals": (lambda found, place: -_capitals(found[place]), 0.62),
        "short": (lambda found, place: len(found[place]), 0.62),
        "long": (lambda found, place: -len(found[place]), 0.62),
    }
    for name, (key, highest) in rules.items():
        assert _accuracy(documents[::3], partial(_extract, key)) < highest, name


def _extract(key: Callable[[Sequence[str], int], float], document: Document) -> str:
    """The sentences that come first by `key` and fit into a summary, in document order."""
    found = sentences(document.text)
    chosen: list[int] = []
    room = WORDS_MAX
    for place in sorted(range(len(found)), key=lambda place: key(found, place)):
        if (words := count_words(found[place])) <= room:
            chosen.append(place)
            room -= words
    return "\n".join(found[place] for place in sorted(chosen))


def _accuracy(documents: list[Document], summary: Callable[[Document], str]) -> float:
    counts = [right(document, summary(document)) for document in documents]
    return sum(correct for correct, _ in counts) / sum(asked for _, asked in counts)


def _capitals(sentence: str) -> int:
    return sum(word[:1].isupper() for word in sentence.split()[1:])
