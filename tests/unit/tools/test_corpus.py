"""The bundled corpus: made again to the same bytes, and with no place that gives answers away."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path
from random import Random
from statistics import mean, median

import pyarrow.parquet as pq
import pytest

from precis.rehearsal.judges.grader import UNANSWERABLE, grade
from precis.rehearsal.judges.reader import answer
from precis.text import count_words, sentences
from precis.words import WORDS_MAX
from tools.corpus.compose import Composed, ComposedRow
from tools.corpus.make import PATH, corpus, write


@pytest.fixture(scope="module")
def documents() -> list[Composed]:
    return corpus()


def test_the_program_makes_the_bundled_corpus_again(tmp_path: Path) -> None:
    again = tmp_path / "again.parquet"
    write(again)
    assert pq.read_table(again).equals(pq.read_table(PATH))
    if pq.read_metadata(again).created_by == pq.read_metadata(PATH).created_by:
        assert again.read_bytes() == PATH.read_bytes()


def test_documents_are_in_the_manner_of_repliqa(documents: list[Composed]) -> None:
    counts = Counter(document.topic for document in documents)
    assert len(counts) == 17 and min(counts.values()) >= 9
    assert len(documents) >= 160
    words = [count_words(document.text) for document in documents]
    assert min(words) >= 500
    assert max(words) <= 1100
    asked = [asked for document in documents for asked in document.asked]
    share = mean(question.answer == UNANSWERABLE for question in asked)
    assert share == pytest.approx(0.2, abs=0.03)
    for document in documents:
        shown = document.text + "".join(asked.question + asked.answer for asked in document.asked)
        assert not set("{}[]|=") & set(shown), f"a template is left in {document.id}"


def test_documents_of_one_topic_seldom_share_a_passage(documents: list[Composed]) -> None:
    found = [(document.topic, set(sentences(document.text))) for document in documents]
    shares = [
        len(one & other) / len(one)
        for (topic, one), (other_topic, other) in combinations(found, 2)
        if topic == other_topic
    ]
    assert mean(shares) < 0.15
    assert median(shares) < 0.1


def test_a_long_answer_is_a_passage_that_holds_the_answer(documents: list[Composed]) -> None:
    for document in documents:
        for asked in _answerable(document):
            assert asked.long_answer in document.text
            assert asked.answer.lower() in asked.long_answer.lower()


def test_answers_stand_everywhere_in_the_documents(documents: list[Composed]) -> None:
    places = [
        document.text.index(asked.long_answer) * 10 // len(document.text)
        for document in documents
        for asked in _answerable(document)
    ]
    shares = [places.count(decile) / len(places) for decile in range(10)]
    assert max(shares) < 0.2
    assert min(shares) > 0.04


def test_many_answers_have_no_digit_and_many_digits_answer_nothing(
    documents: list[Composed],
) -> None:
    asked = [asked for document in documents for asked in _answerable(document)]
    assert 0.25 < mean(_has_digit(question.long_answer) for question in asked) < 0.5
    answering = {question.long_answer for question in asked}
    digits = [s for document in documents for s in sentences(document.text) if _has_digit(s)]
    assert mean(sentence not in answering for sentence in digits) > 0.6


def test_the_reader_answers_from_the_full_document(documents: list[Composed]) -> None:
    assert _accuracy(documents[::2], lambda document: document.text) >= 0.95


def test_a_summary_can_hold_every_answer(documents: list[Composed]) -> None:
    def answering(document: Composed) -> str:
        return "\n".join(asked.long_answer for asked in _answerable(document))

    assert all(count_words(answering(document)) <= WORDS_MAX for document in documents)
    assert _accuracy(documents, answering) >= 0.95


def test_no_fixed_rule_comes_near_to_the_full_document(documents: list[Composed]) -> None:
    chance = Random(7)
    rules: dict[str, tuple[Callable[[Sequence[str], int], float], float]] = {
        "lead": (lambda found, place: place, 0.48),
        "tail": (lambda found, place: -place, 0.48),
        "random": (lambda found, place: chance.random(), 0.5),
        "digits": (lambda found, place: not _has_digit(found[place]), 0.62),
        "capitals": (lambda found, place: -_capitals(found[place]), 0.62),
        "short": (lambda found, place: len(found[place]), 0.62),
        "long": (lambda found, place: -len(found[place]), 0.62),
    }
    for name, (key, highest) in rules.items():
        assert _accuracy(documents[::3], partial(_extract, key)) < highest, name


def _extract(key: Callable[[Sequence[str], int], float], document: Composed) -> str:
    """The sentences that come first by `key` and fit into a summary, in document order."""
    found = sentences(document.text)
    chosen: list[int] = []
    room = WORDS_MAX
    for place in sorted(range(len(found)), key=lambda place: key(found, place)):
        if (words := count_words(found[place])) <= room:
            chosen.append(place)
            room -= words
    return "\n".join(found[place] for place in sorted(chosen))


def _accuracy(documents: list[Composed], summary: Callable[[Composed], str]) -> float:
    return mean(
        grade(asked.question, asked.answer, answer(text, asked.question))
        for document in documents
        for text in [summary(document)]
        for asked in _answerable(document)
    )


def _answerable(document: Composed) -> list[ComposedRow]:
    return [asked for asked in document.asked if asked.answer != UNANSWERABLE]


def _has_digit(sentence: str) -> bool:
    return any(character.isdigit() for character in sentence)


def _capitals(sentence: str) -> int:
    return sum(word[:1].isupper() for word in sentence.split()[1:])
