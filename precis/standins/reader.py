"""A rule-based reader: the sentences of a text that answer a question.

It stands in for a hosted judge where none is to be paid for. A sentence counts by the words of
the question that it has, the rarer the more. What was said before and after it counts too, for
less: prose names its subject once and then goes on about it. The weights were fitted to prose,
checked on documents left out of the fit, and rounded. Everything here is a pure function.
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
from precis.standins.synonyms import synonyms
from precis.standins.words import VARIANT_PREFIX, content_stems, is_variant
from precis.text import count_words, sentences

_SENTENCES_MAX = 5
_WORDS_MAX = 95
"""The longest answer: a hosted judge's is one sentence, and a whole text would be no answer."""
_KNOWN_MIN = 0.15
"""The least share of a question that its best sentence has, or there is no answer."""
_SYNONYM = 0.8
_VARIANT = 0.7
"""What another word with the same meaning, or the same beginning, counts for."""
_CARRIED = 0.95
_PARAGRAPH = 0.6
"""How much of a sentence's words is left one sentence further, and across paragraphs."""
_BEFORE = 0.8
_AFTER = 0.3
_REFERRING = 0.17
"""What words before and after a sentence count for, and more before one that refers back."""
_FAR = 0.28
"""What a sentence loses that is a whole text away from those that have most of the question."""
_NEAR_BEST = 0.9
"""The share of the best sentence's words from which another counts as one of those."""
_KIND_BONUS = 0.15
_LENGTH_BONUS = 0.09
"""For each time that a sentence is e times as long as another: it says more."""
_NO_SENTENCE = 0.09
"""What a heading loses."""
_PIECE_WORDS = 80
_REFERS = re.compile(
    r"[\"“]?(?:He|She|It|They|This|That|These|Those|There|Such|His|Her|Their|Its|But|And|So|Yet"
    r"|Then|Instead|However|Both|One|Another)\b"
)
_ENDED = re.compile(r"[.!?…。！？｡؟۔।॥։።။។][\"'“”’)\]»」』]*\Z")

Weights = dict[str, float]


@dataclass(frozen=True)
class _Index:
    """A text's sentences, each with its paragraph, and where each stem stands in them."""

    sentences: tuple[str, ...]
    paragraphs: tuple[int, ...]
    places: Mapping[str, Sequence[int]]
    by_prefix: Mapping[str, Sequence[str]]

    def rarity(self, word: str) -> float:
        return math.log(1 + len(self.sentences) / len(self.places[word]))


def answer(text: str, question: str) -> str:
    """What a text says to a question.

    Args:
        text: a document, or a summary of one.
        question: one question.

    Returns:
        Up to five sentences of the text, in their order, or `UNANSWERABLE` where none has
        enough to do with the question.
    """
    index = _index(text)
    known = _known(index, question)
    if max((sum(words.values()) for words in known), default=0.0) < _KNOWN_MIN:
        return UNANSWERABLE
    chosen = _best(index.sentences, _scores(index, known, question))
    return " ".join(index.sentences[place] for place in chosen) or UNANSWERABLE


def _best(pieces: Sequence[str], scores: Sequence[float]) -> list[int]:
    """The places of the best sentences that fit into an answer, in order."""
    chosen: list[int] = []
    left = _WORDS_MAX
    for place in sorted(range(len(scores)), key=lambda place: -scores[place]):
        words = count_words(pieces[place])
        if words <= left:
            chosen.append(place)
            left -= words
        if len(chosen) == _SENTENCES_MAX:
            break
    return sorted(chosen)


def _known(index: _Index, question: str) -> list[Weights]:
    """For each sentence the question's words that it has, by weight; all weights make 1.

    A word that the text has nowhere weighs half of the rarest.
    """
    known: list[Weights] = [{} for _ in index.sentences]
    total = 0.0
    for word in sorted(set(content_stems(question))):
        likeness = _likeness(index, word)
        if not likeness:
            total += math.log(1 + len(index.sentences)) / 2
            continue
        weight = max(index.rarity(one) for one in ([word] if word in index.places else likeness))
        total += weight
        for one, share in likeness.items():
            for place in index.places[one]:
                known[place][word] = max(known[place].get(word, 0.0), share * weight)
    return [{word: weight / total for word, weight in words.items()} for words in known]


def _likeness(index: _Index, word: str) -> Weights:
    """The text's words that may stand for a word, with what each counts for."""
    found = {
        one: _VARIANT
        for one in index.by_prefix.get(word[:VARIANT_PREFIX], ())
        if is_variant(one, word)
    }
    found |= {one: _SYNONYM for one in sorted(synonyms(word)) if one in index.places}
    if word in index.places:
        found[word] = 1.0
    return found


def _scores(index: _Index, known: Sequence[Weights], question: str) -> list[float]:
    kind = kind_asked(question)
    before = _carried(known, index.paragraphs)
    after = _carried(known[::-1], index.paragraphs[::-1])[::-1]
    away = _distances([sum(own.values()) for own in known])
    scores = []
    for place, sentence in enumerate(index.sentences):
        own = known[place]
        behind = _beyond(own, before[place])
        score = sum(own.values()) + _BEFORE * behind + _AFTER * _beyond(own, after[place])
        score += _LENGTH_BONUS * _log_length(sentence) - _FAR * away[place]
        if _refers_back(sentence):
            score += _REFERRING * behind
        if shows(sentence, kind):
            score += _KIND_BONUS
        if not _is_sentence(sentence):
            score -= _NO_SENTENCE
        scores.append(score)
    return scores


def _distances(shares: Sequence[float]) -> list[float]:
    """How far each sentence is from the nearest of the best, as a share of the text."""
    best = max(shares)
    found = [float(len(shares))] * len(shares)
    for places in (range(len(shares)), range(len(shares) - 1, -1, -1)):
        steps = float(len(shares))
        for place in places:
            steps = 0.0 if shares[place] >= _NEAR_BEST * best else steps + 1
            found[place] = min(found[place], steps)
    return [steps / len(shares) for steps in found]


def _carried(known: Sequence[Weights], paragraphs: Sequence[int]) -> list[Weights]:
    """What the sentences before each one have, fading with their distance."""
    found: list[Weights] = []
    carried: Weights = {}
    for place, own in enumerate(known):
        kept = _CARRIED
        if place and paragraphs[place] != paragraphs[place - 1]:
            kept *= _PARAGRAPH
        carried = {word: kept * weight for word, weight in carried.items() if weight > 1e-3}
        found.append(carried)
        carried = carried | {
            word: max(weight, carried.get(word, 0.0)) for word, weight in own.items()
        }
    return found


def _beyond(own: Weights, around: Weights) -> float:
    """What the sentences around one have more of than itself."""
    return sum(max(0.0, weight - own.get(word, 0.0)) for word, weight in around.items())


@lru_cache(maxsize=32_768)
def _log_length(sentence: str) -> float:
    return math.log(max(1, count_words(sentence)))


@lru_cache(maxsize=32_768)
def _refers_back(sentence: str) -> bool:
    return bool(_REFERS.match(sentence))


@lru_cache(maxsize=32_768)
def _is_sentence(piece: str) -> bool:
    return bool(_ENDED.search(piece))


@lru_cache(maxsize=512)
def _index(text: str) -> _Index:
    found: list[str] = []
    paragraphs: list[int] = []
    for number, paragraph in enumerate(text.splitlines()):
        for piece in _pieces(paragraph):
            found.append(piece)
            paragraphs.append(number)
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, sentence in enumerate(found):
        for word in _stems(sentence):
            places[word].append(place)
    by_prefix: defaultdict[str, list[str]] = defaultdict(list)
    for word in places:
        if len(word) >= VARIANT_PREFIX:
            by_prefix[word[:VARIANT_PREFIX]].append(word)
    return _Index(tuple(found), tuple(paragraphs), places, by_prefix)


@lru_cache(maxsize=32_768)
def _stems(sentence: str) -> tuple[str, ...]:
    return tuple(sorted(set(content_stems(sentence))))


def _pieces(paragraph: str) -> Iterator[str]:
    """Sentences; text without their ends, such as a table, in pieces of a fixed length."""
    for sentence in sentences(paragraph):
        starts = [match.start() for match in re.finditer(r"\S+", sentence)][::_PIECE_WORDS]
        for start, end in pairwise([*starts, len(sentence)]):
            yield sentence[start:end].strip()
