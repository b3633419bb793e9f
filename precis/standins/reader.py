"""A rule-based reader: the clauses of a text that answer a question.

It stands in for a hosted judge where none is to be paid for. A clause counts by the words of the
question that it has, the rarer the more. What was said before and after it counts too, for less:
prose names its subject once and then goes on about it. The weights were fitted to prose, checked
on documents left out of the fit, and rounded. Everything here is a pure function.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from precis.standins.grader import UNANSWERABLE
from precis.standins.kinds import kind_asked, shows
from precis.standins.names import full_names
from precis.standins.synonyms import synonyms
from precis.standins.words import VARIANT_PREFIX, common_stems, content_stems, is_variant
from precis.text import count_words, sentences

_CLAUSES_MAX = 8
_WORDS_MAX = 95
"""The longest answer: a hosted judge's is one sentence, and a whole text would be no answer."""
_KNOWN_MIN = 0.05
"""The least share of a question that its best clause has, or there is no answer."""
_COMMON = 0.5
"""What a word that stands in many questions counts for: it says little about this one."""
_SURNAME = 0.9
"""What the rest of a full name counts for where its last word stands alone."""
_SYNONYM = 0.8
_VARIANT = 0.7
"""What another word with the same meaning, or the same beginning, counts for."""
_CARRIED = 0.95
_PARAGRAPH = 0.6
"""How much of a clause's words is left one clause further, and across paragraphs, unless the one
before is a question: an interview's answers are paragraphs of their own."""
_BEFORE = 0.8
_AFTER = 0.3
_REFERRING = 0.17
"""What words before and after a sentence count for, and more before one that refers back."""
_FAR = 0.28
"""What a clause loses that is a whole text away from those that have most of the question."""
_NEAR_BEST = 0.9
"""The share of the best clause's words from which another counts as one of those."""
_KIND_BONUS = 0.15
_LENGTH_BONUS = 0.09
"""For each time that a clause is e times as long as another: it says more."""
_PIECE_WORDS = 80
_CLAUSE_WORDS = 8
"""How many words there have to be before and after the end of a clause."""
_CLAUSE_END = re.compile(
    r"(?<=[;:\u2013\u2014]) "
    r"|(?<=,) (?=(?:and|but|because|which|who|while|since|so|although|where|when|as)\b)"
)
_REFERS = re.compile(
    r"[\"“]?(?:He|She|It|They|This|That|These|Those|There|Such|His|Her|Their|Its|But|And|So|Yet"
    r"|Then|Instead|However|Both|One|Another)\b"
)

_ASKED = ("?", '?"', "?\u201d", "?\u2019", "?)", "\uff1f", "\u061f")

Weights = dict[str, float]


@dataclass(frozen=True)
class _Index:
    """A text's clauses, each with its paragraph, and where each stem stands in them."""

    clauses: tuple[str, ...]
    paragraphs: tuple[int, ...]
    places: Mapping[str, Sequence[int]]
    by_prefix: Mapping[str, Sequence[str]]

    def rarity(self, word: str) -> float:
        rarity = math.log(1 + len(self.clauses) / len(self.places[word]))
        return rarity * (_COMMON if word in common_stems() else 1.0)


def answer(text: str, question: str) -> str:
    """What a text says to a question.

    Args:
        text: a document, or a summary of one.
        question: one question.

    Returns:
        Up to eight clauses of the text, in their order, a line for each stretch of them, or
        `UNANSWERABLE` where none has enough to do with the question.
    """
    index = _index(text)
    known = _known(index, question)
    if max((sum(words.values()) for words in known), default=0.0) < _KNOWN_MIN:
        return UNANSWERABLE
    return _told(index.clauses, _best(index.clauses, _scores(index, known, question)))


def _best(clauses: Sequence[str], scores: Sequence[float]) -> list[int]:
    """The places of the best clauses that fit into an answer, in order."""
    chosen: list[int] = []
    left = _WORDS_MAX
    for place in sorted(range(len(scores)), key=lambda place: -scores[place]):
        words = count_words(clauses[place])
        if words <= left:
            chosen.append(place)
            left -= words
        if len(chosen) == _CLAUSES_MAX:
            break
    return sorted(chosen)


def _told(clauses: Sequence[str], chosen: Sequence[int]) -> str:
    text = ""
    for before, place in zip([-1, *chosen], chosen, strict=False):
        text += (" " if place == before + 1 else "\n") + clauses[place]
    return text.strip() or UNANSWERABLE


def _known(index: _Index, question: str) -> list[Weights]:
    """For each clause the question's words that it has, by weight; all weights make 1.

    A word that the text has nowhere weighs half of the rarest.
    """
    known: list[Weights] = [{} for _ in index.clauses]
    total = 0.0
    for word in sorted(set(content_stems(question))):
        likeness = _likeness(index, word)
        if not likeness:
            total += math.log(1 + len(index.clauses)) / 2
            continue
        weight = max(index.rarity(one) for one in ([word] if word in index.places else likeness))
        total += weight
        for one, share in likeness.items():
            for place in index.places[one]:
                known[place][word] = max(known[place].get(word, 0.0), share * weight)
    for first, last in full_names(question):
        if first in index.places:
            for words in known:
                if last in words:
                    words.setdefault(first, _SURNAME * index.rarity(first))
    return [{word: weight / total for word, weight in words.items()} for words in known]


def _likeness(index: _Index, word: str) -> Weights:
    """The text's words that may stand for a word, with what each counts for."""
    found = {}
    for one in index.by_prefix.get(word[:VARIANT_PREFIX], ()):
        if is_variant(one, word):
            found[one] = _VARIANT
    found |= {one: _SYNONYM for one in sorted(synonyms(word)) if one in index.places}
    if word in index.places:
        found[word] = 1.0
    return found


def _scores(index: _Index, known: Sequence[Weights], question: str) -> list[float]:
    kind = kind_asked(question)
    kept = _kept(index)
    before = _carried(known, [0.0, *kept])
    after = _carried(known[::-1], [0.0, *reversed(kept)])[::-1]
    away = _distances([sum(own.values()) for own in known])
    scores = []
    for place, clause in enumerate(index.clauses):
        own = known[place]
        behind = _beyond(own, before[place])
        score = sum(own.values()) + _BEFORE * behind + _AFTER * _beyond(own, after[place])
        score += _LENGTH_BONUS * _log_length(clause) - _FAR * away[place]
        if _refers_back(clause):
            score += _REFERRING * behind
        if shows(clause, kind):
            score += _KIND_BONUS
        scores.append(score)
    return scores


def _distances(shares: Sequence[float]) -> list[float]:
    """How far each clause is from the nearest of the best, as a share of the text."""
    best = max(shares)
    found = [float(len(shares))] * len(shares)
    for places in (range(len(shares)), range(len(shares) - 1, -1, -1)):
        steps = float(len(shares))
        for place in places:
            steps = 0.0 if shares[place] >= _NEAR_BEST * best else steps + 1
            found[place] = min(found[place], steps)
    return [steps / len(shares) for steps in found]


def _kept(index: _Index) -> list[float]:
    """How much of what a clause has is left in the next one, for each but the last."""
    kept: list[float] = []
    for place, (one, other) in enumerate(pairwise(index.paragraphs)):
        apart = one != other and not index.clauses[place].endswith(_ASKED)
        kept.append(_CARRIED * _PARAGRAPH if apart else _CARRIED)
    return kept


def _carried(known: Sequence[Weights], kept: Sequence[float]) -> list[Weights]:
    """What the clauses before each one have, fading with their distance."""
    found: list[Weights] = []
    carried: Weights = {}
    for own, share in zip(known, kept, strict=True):
        carried = {word: share * weight for word, weight in carried.items() if weight > 1e-3}
        found.append(carried)
        carried = dict(carried)
        for word, weight in own.items():
            carried[word] = max(weight, carried.get(word, 0.0))
    return found


def _beyond(own: Weights, around: Weights) -> float:
    """What the clauses around one have more of than itself."""
    return sum(max(0.0, weight - own.get(word, 0.0)) for word, weight in around.items())


@lru_cache(maxsize=32_768)
def _log_length(sentence: str) -> float:
    return math.log(max(1, count_words(sentence)))


@lru_cache(maxsize=32_768)
def _refers_back(sentence: str) -> bool:
    return bool(_REFERS.match(sentence))


@lru_cache(maxsize=512)
def _index(text: str) -> _Index:
    found: list[str] = []
    paragraphs: list[int] = []
    for paragraph, line in enumerate(text.splitlines()):
        for sentence in sentences(line):
            clauses = list(_clauses(sentence))
            found.extend(clauses)
            paragraphs.extend([paragraph] * len(clauses))
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, clause in enumerate(found):
        for word in _stems(clause):
            places[word].append(place)
    by_prefix: defaultdict[str, list[str]] = defaultdict(list)
    for word in places:
        if len(word) >= VARIANT_PREFIX:
            by_prefix[word[:VARIANT_PREFIX]].append(word)
    return _Index(tuple(found), tuple(paragraphs), places, by_prefix)


@lru_cache(maxsize=32_768)
def _stems(clause: str) -> tuple[str, ...]:
    return tuple(sorted(set(content_stems(clause))))


def _clauses(sentence: str) -> Iterator[str]:
    """A sentence's clauses; one without their ends, such as a table, in fixed lengths."""
    start = 0
    for end in _CLAUSE_END.finditer(sentence):
        before = sentence[start : end.start()]
        after = sentence[end.end() :]
        if min(count_words(before), count_words(after)) >= _CLAUSE_WORDS:
            yield from _pieces(before)
            start = end.end()
    yield from _pieces(sentence[start:])


def _pieces(clause: str) -> Iterator[str]:
    starts = [match.start() for match in re.finditer(r"\S+", clause)][::_PIECE_WORDS]
    for start, end in pairwise([*starts, len(clause)]):
        yield clause[start:end].strip()
