"""The bundled corpus: no place in a document gives its answers away."""

from collections.abc import Callable, Sequence
from functools import partial
from random import Random

from bench.lexical_judge import right
from precis.records.documents import Document
from precis.rehearsal.judges.words import has_digit
from precis.text import WORDS_MAX, count_words, sentences
from tests.support.corpora import BUNDLED


def test_the_reader_answers_from_the_full_document() -> None:
    assert _accuracy(BUNDLED[::6], lambda document: document.text) >= 0.95


def test_a_summary_can_hold_every_answer() -> None:
    def answering(document: Document) -> str:
        return "\n".join(one.long_answer for one in document.questions if one.answerable)

    assert all(count_words(answering(document)) <= WORDS_MAX for document in BUNDLED)
    assert _accuracy(BUNDLED, answering) >= 0.95


def test_no_fixed_rule_comes_near_to_the_full_document() -> None:
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
        assert _accuracy(BUNDLED[::3], partial(_extract, key)) < highest, name


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


def _accuracy(documents: Sequence[Document], summary: Callable[[Document], str]) -> float:
    counts = [right(document, summary(document)) for document in documents]
    return sum(correct for correct, _ in counts) / sum(asked for _, asked in counts)


def _capitals(sentence: str) -> int:
    return sum(word[:1].isupper() for word in sentence.split()[1:])
