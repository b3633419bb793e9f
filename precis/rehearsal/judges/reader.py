"""A rule-based reader: the one or two sentences of a text that answer a question.

A sentence is scored by the question's words in it, rare ones higher, and by its surroundings,
lower. The weights were fitted to prose, checked on documents left out of the fit, and rounded.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Literal

from precis.records.documents import UNANSWERABLE
from precis.rehearsal.judges.words import (
    MONTHS,
    VARIANT_PREFIX,
    WEEKDAYS,
    common_stems,
    content_stems,
    full_names,
    has_digit,
    is_variant,
    synonyms,
)
from precis.text import count_words, sentences

SENTENCES_MAX = 2
WORDS_MAX = 60
"""The most words of an answer, like a person's."""
_SENTENCE_WORDS = 36
"""A longer sentence, or a list without sentence ends, is read in parts."""
_KNOWN_MIN = 0.05
"""The least share of a question in its best sentence; below it there is no answer."""
_COMMON = 0.7
"""The weight of a word that is common in questions."""
_SURNAME = 0.9
"""The weight of the rest of a full name if only its last word is there."""
_SYNONYM = 0.8
_VARIANT = 0.7
"""The weight of a synonym, or a word with the same beginning."""
_CARRIED = 0.95
_PARAGRAPH = 0.6
"""The share of a sentence's weight carried to the next one, and the further factor across
paragraphs, unless the previous sentence is a question: an interview's answers are separate
paragraphs."""
_BEFORE = 0.75
_AFTER = 0.3
_AROUND = 0.55
"""The weights of words before a sentence, after it, and in its paragraph."""
_KIND_BONUS = 0.15
_NUMBER_BONUS = 0.35
"""For something of the kind asked for, and for a number if one is asked for."""
_LENGTH_BONUS = 0.2
"""For each factor of e in a sentence's length: longer ones say more."""
_FAR_BEHIND = 0.5
"""A second sentence this far behind the best is not part of the answer."""
_PART_WORDS = 8
"""The least words before and after the end of a part."""
_PART_END = re.compile(
    r"(?<=[;:\u2013\u2014]) |(?<=\.) (?=\()"
    r"|(?<=,) (?=(?:and|but|because|which|who|while|since|so|although|where|when|as)\b)"
)
_ASKED = ("?", '?"', "?\u201d", "?\u2019", "?)", "\uff1f", "\u061f")

Kind = Literal["person", "moment", "number", "place", "reason", "name", "thing"]
_NUMBER_WORD = (
    r"(?:twen|thir|for|fif|six|seven|eigh|nine)ty|two|three|four|five|six|seven|eight|nine|ten"
    r"|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen|dozen|hundred|thousand|million|half"
    r"|third|quarter|once|twice"
)
_QUESTIONS: tuple[tuple[Kind, str], ...] = (
    ("moment", r"when|how soon|(?:what|which) (?:\w+ )?(?:date|day|month|year|season|time|hour)"),
    (
        "number",
        r"how (?:much|many|long|far|old|often|large|big|high|tall|wide|deep|heavy|fast|early|late)"
        r"|(?:what|which) (?:\w+ )?(?:percentage|share|proportion|number|price|sum|amount|cost|fee"
        r"|score|size|maximum|minimum|average|age|length|temperature|distance)",
    ),
    ("reason", r"why|(?:what|which) (?:\w+ ){0,3}(?:reason|cause|caused|motive|purpose|prompted)"),
    ("person", r"who|whom|whose"),
    ("place", r"where"),
    ("name", r"which|(?:what) (?:\w+ ){0,3}(?:name|called|title)"),
)
_QUESTION_KINDS = [
    (kind, re.compile(rf"\b(?:{words})\b", re.IGNORECASE)) for kind, words in _QUESTIONS
]
_SHOWN: dict[Kind, re.Pattern[str]] = {
    "person": re.compile(
        r"(?<=[a-z,;] )[A-Z][a-z]|\A[A-Z]\w+ (?:[A-Z]|\w+ed\b)|\b(?:[Hh]e|[Ss]he)\b"
    ),
    "name": re.compile(r"(?<=[a-z,;] )[A-Z][a-z]|[“\"]"),
    "moment": re.compile(
        rf"\b(?:{MONTHS}|{WEEKDAYS}|spring|summer|autumn|winter|noon|midnight|1[5-9]\d\d|20\d\d"
        r"|yesterday|tomorrow|morning|evening|night|week|year|month|day|\d+:\d\d)\b"
    ),
    "number": re.compile(rf"\d|\b(?:{_NUMBER_WORD})\b"),
    "place": re.compile(r"\b(?:in|at|on|near|from|to|behind|under|inside|beside|along) "),
    "reason": re.compile(
        r"\b(?:because|since|due to|owing to|so that|in order|as|after|reason|cause[ds]?|grounds"
        r"|therefore|to avoid|to prevent|to ensure|would have|wanted|meant|led)\b"
    ),
}
Weights = dict[str, float]


@dataclass(frozen=True)
class _Index:
    """A text's sentences, each with its words and paragraph, and the places of each stem."""

    sentences: tuple[str, ...]
    words: tuple[int, ...]
    paragraphs: tuple[int, ...]
    places: Mapping[str, Sequence[int]]
    by_prefix: Mapping[str, Sequence[str]]

    def rarity(self, word: str) -> float:
        rarity = math.log(1 + len(self.sentences) / len(self.places[word]))
        return rarity * (_COMMON if word in common_stems() else 1.0)


def answer(text: str, question: str) -> str:
    """Return a text's answer to a question: one or two of its sentences, of 60 words at most, in
    their order, or `UNANSWERABLE` if none is relevant enough."""
    index = _index(text)
    known = _known(index, question)
    if max((sum(words.values()) for words in known), default=0.0) < _KNOWN_MIN:
        return UNANSWERABLE
    scores = _scores(index, known, question)
    best = max(scores)
    chosen: list[int] = []
    left = WORDS_MAX
    for place in sorted(range(len(scores)), key=lambda place: -scores[place]):
        words = index.words[place]
        if len(chosen) == SENTENCES_MAX or scores[place] < best - _FAR_BEHIND:
            break
        if words <= left:
            chosen.append(place)
            left -= words
    return " ".join(index.sentences[place] for place in sorted(chosen)) or UNANSWERABLE


def _known(index: _Index, question: str) -> list[Weights]:
    """Return for each sentence the weights of the question's words in it; all weights sum to 1. A
    word that is not in the text weighs half of the rarest."""
    known: list[Weights] = [{} for _ in index.sentences]
    total = 0.0
    for word in sorted(set(content_stems(question))):
        # The text's words that may match a word, with their weights.
        likeness = {}
        for one in index.by_prefix.get(word[:VARIANT_PREFIX], ()):
            if is_variant(one, word):
                likeness[one] = _VARIANT
        for one in sorted(synonyms(word)):
            if one in index.places:
                likeness[one] = _SYNONYM
        if word in index.places:
            likeness[word] = 1.0
        if not likeness:
            total += math.log(1 + len(index.sentences)) / 2
            continue
        weight = max(map(index.rarity, [word] if word in index.places else likeness))
        total += weight
        for one, share in likeness.items():
            for place in index.places[one]:
                known[place][word] = max(known[place].get(word, 0.0), share * weight)
    for first, last in full_names(question):
        if first in index.places:
            for words in known:
                if last in words:
                    words.setdefault(first, _SURNAME * index.rarity(first))
    for words in known:
        for word in words:
            words[word] /= total
    return known


def _scores(index: _Index, known: Sequence[Weights], question: str) -> list[float]:
    # The kind of thing that is asked for, by the first question word.
    kinds = []
    for rank, (kind, pattern) in enumerate(_QUESTION_KINDS):
        match = pattern.search(question)
        if match:
            kinds.append((match.start(), rank, kind))
    kind = min(kinds)[2] if kinds else "thing"
    asked = set(content_stems(question))
    # The rarest word alone does not make an answer: none may exceed an equal share.
    word_max = 1 / max(1, len(asked))
    # The share of each sentence's weight that is carried to the next one.
    kept: list[float] = []
    for place, (one, other) in enumerate(pairwise(index.paragraphs)):
        apart = one != other and not index.sentences[place].endswith(_ASKED)
        kept.append(_CARRIED * _PARAGRAPH if apart else _CARRIED)
    before = _carried(known, [0.0, *kept])
    after = _carried(known[::-1], [0.0, *reversed(kept)])[::-1]
    # How much of the question each paragraph has.
    around: defaultdict[int, Weights] = defaultdict(dict)
    for paragraph, own in zip(index.paragraphs, known, strict=True):
        for word, weight in own.items():
            around[paragraph][word] = max(weight, around[paragraph].get(word, 0.0))
    scores = []
    for place, sentence in enumerate(index.sentences):
        own = known[place]
        score = sum(min(weight, word_max) for weight in own.values())
        score += _BEFORE * _beyond(own, before[place]) + _AFTER * _beyond(own, after[place])
        of_paragraph = sum(around[index.paragraphs[place]].values())
        score += _AROUND * of_paragraph + _LENGTH_BONUS * math.log(max(1, index.words[place]))
        if _shows(sentence, kind):
            score += _KIND_BONUS
        if kind == "number" and any(map(has_digit, set(_stems(sentence)) - asked)):
            score += _NUMBER_BONUS
        scores.append(score)
    return scores


def _carried(known: Sequence[Weights], kept: Sequence[float]) -> list[Weights]:
    """Return the weights of the sentences before each one, fading with distance."""
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
    """Return how much the weights around a sentence exceed its own."""
    return sum(max(0.0, weight - own.get(word, 0.0)) for word, weight in around.items())


@lru_cache(maxsize=65_536)
def _shows(sentence: str, kind: Kind) -> bool:
    """Return whether a sentence has something of a kind; always False for a `thing`."""
    return kind != "thing" and bool(_SHOWN[kind].search(sentence))


@lru_cache(maxsize=512)
def _index(text: str) -> _Index:
    found: list[str] = []
    paragraphs: list[int] = []
    for paragraph, line in enumerate(text.splitlines()):
        for sentence in sentences(line):
            parts = list(_parts(sentence))
            found.extend(parts)
            paragraphs.extend([paragraph] * len(parts))
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, sentence in enumerate(found):
        for word in _stems(sentence):
            places[word].append(place)
    by_prefix: defaultdict[str, list[str]] = defaultdict(list)
    for word in places:
        if len(word) >= VARIANT_PREFIX:
            by_prefix[word[:VARIANT_PREFIX]].append(word)
    words = tuple(map(count_words, found))
    return _Index(tuple(found), words, tuple(paragraphs), places, by_prefix)


@lru_cache(maxsize=32_768)
def _stems(sentence: str) -> tuple[str, ...]:
    return tuple(sorted(set(content_stems(sentence))))


def _parts(sentence: str) -> Iterator[str]:
    """Yield a sentence, or the parts of a long one: its clauses, if it has any, else parts of a
    fixed length."""
    if count_words(sentence) <= _SENTENCE_WORDS:
        yield sentence
        return
    ends = [end.end() for end in _PART_END.finditer(sentence)]
    ends.append(len(sentence))
    start = last = 0
    for end in ends:
        if last > start and count_words(sentence[start:end]) > _SENTENCE_WORDS:
            yield from _pieces(sentence[start:last])
            start = last
        if min(count_words(sentence[start:end]), count_words(sentence[end:])) >= _PART_WORDS:
            last = end
    yield from _pieces(sentence[start:])


def _pieces(part: str) -> Iterator[str]:
    words = list(re.finditer(r"\S+", part))
    for first in range(0, len(words), _SENTENCE_WORDS):
        piece = words[first : first + _SENTENCE_WORDS]
        yield part[piece[0].start() : piece[-1].end()]
