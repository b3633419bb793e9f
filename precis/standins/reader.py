"""A rule-based reader: short answers out of a text, and grades for them.

It stands in for a hosted judge where none is to be paid for. It finds the sentence that shares
the rarest words with the question, and takes from it the span of the kind that is asked for:
a name, a date, an amount, a place, a reason. Everything here is a pure function.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from precis.standins.spans import Kind, Span, candidates, kind_asked
from precis.standins.words import content_stems, has_digit, is_content, normal_form, stem
from precis.text import sentences

UNANSWERABLE = "UNANSWERABLE"
"""The answer to a question that the text does not answer."""

_OVERLAP_MIN = 0.42
"""The least share of a question's rare words that a sentence must have to be read at all."""
_KIND_BONUS = 0.12
_PIECE_WORDS = 100
_COMMA_WORDS = 4
_MARKS = re.compile(r"[^\W_]+(?:[.,:'\u2019\-][^\W_]+)*|[,;:]")
_F_MIN = 0.6
_RECALL_WEIGHT = 1.5


@dataclass(frozen=True)
class _Index:
    sentences: tuple[str, ...]
    stems: tuple[frozenset[str], ...]
    rarity: dict[str, float]
    rarity_of_unseen: float


def answer(text: str, question: str) -> str:
    """A short answer to a question, read from a text.

    Args:
        text: a document, or a summary of one.
        question: one question in English.

    Returns:
        A span of one sentence of the text, or `UNANSWERABLE` when no sentence is close enough
        to the question or the closest has nothing of the kind that it asks for.
    """
    kind, asking = kind_asked(question)
    asked = frozenset(content_stems(question.replace(asking, " ", 1)))
    if not asked or (sentence := _closest(_index(text), asked, kind)) is None:
        return UNANSWERABLE
    spans = candidates(sentence, kind, asked)
    if not spans:
        return UNANSWERABLE
    weights = dict(_weighted(_index(text), asked))
    best = max(spans, key=lambda span: (_nearness(sentence, span, weights), -span.start))
    return sentence[best.start : best.end].strip(' ,;:.“”"')


def grade(question: str, gold: str, answer: str) -> bool:
    """Whether an answer says what the golden answer says.

    An F-measure over normalised words that weighs recall over precision, so that a correct
    answer may be somewhat longer than the golden one. Every number of the golden answer has to
    be there. Words of the question count for neither side.
    """
    if UNANSWERABLE in (gold.strip(), answer.strip()):
        return gold.strip() == answer.strip()
    asked = set(normal_form(question))
    wanted, given = normal_form(gold), normal_form(answer)
    numbers = {word for word in wanted if has_digit(word)}
    if not numbers <= set(given):
        return False
    wanted = [word for word in wanted if word not in asked] or wanted
    given = [word for word in given if word not in asked or word in wanted]
    return _f_measure(wanted, given) >= _F_MIN


def _f_measure(wanted: list[str], given: list[str]) -> float:
    shared = sum((Counter(wanted) & Counter(given)).values())
    if not shared:
        return 0.0
    precision, recall = shared / len(given), shared / len(wanted)
    weight = _RECALL_WEIGHT**2
    return (1 + weight) * precision * recall / (weight * precision + recall)


@lru_cache(maxsize=512)
def _index(text: str) -> _Index:
    found = tuple(piece for sentence in sentences(text) for piece in _pieces(sentence))
    stems = tuple(frozenset(content_stems(sentence)) for sentence in found)
    seen = Counter(word for words in stems for word in words)
    rarity = {word: math.log(1 + len(found) / count) for word, count in seen.items()}
    return _Index(found, stems, rarity, math.log(1 + 2 * max(1, len(found))))


def _pieces(sentence: str) -> Iterator[str]:
    """Text without sentence ends, such as a table, is read in pieces: reading is quadratic."""
    starts = [match.start() for match in re.finditer(r"\S+", sentence)][::_PIECE_WORDS]
    for start, end in pairwise([*starts, len(sentence)]):
        yield sentence[start:end].strip()


def _weighted(index: _Index, asked: frozenset[str]) -> Iterator[tuple[str, float]]:
    return ((word, index.rarity.get(word, index.rarity_of_unseen)) for word in sorted(asked))


def _closest(index: _Index, asked: frozenset[str], kind: Kind) -> str | None:
    """The sentence with the most overlap; having a span of the kind breaks near-ties."""
    weights = dict(_weighted(index, asked))
    total = sum(weights.values())
    best, best_score = None, 0.0
    for sentence, stems in zip(index.sentences, index.stems, strict=True):
        overlap = sum(weights[word] for word in sorted(asked & stems)) / total
        if overlap < _OVERLAP_MIN or overlap + _KIND_BONUS <= best_score:
            continue
        score = overlap + _KIND_BONUS * bool(candidates(sentence, kind, asked))
        if score > best_score:
            best, best_score = sentence, score
    return best


def _nearness(sentence: str, span: Span, weights: dict[str, float]) -> float:
    """How close a span stands to the question's words in its sentence.

    A comma counts as several words: what stands beyond it belongs to another clause.
    """
    before = list(reversed(_MARKS.findall(sentence[: span.start].lower())))
    near = 0.0
    for side in (before, _MARKS.findall(sentence[span.end :].lower())):
        gap = 1
        for mark in side:
            near += weights.get(stem(mark), 0.0) / (1 + gap) if is_content(mark) else 0.0
            gap += _COMMA_WORDS if mark in ",;:" else 1
    return near
