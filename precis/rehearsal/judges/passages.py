"""A second rule-based reader and grader, made in another way, by which the first is checked.

It ranks sentences by BM25 (Robertson and Zaragoza, 2009) over pieces of words, with the textbooks'
constants, and grades by what must not differ: numbers, names and denials. The two shares below were
chosen on the documents for tuning alone.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache

from precis.rehearsal.judges.grader import UNANSWERABLE
from precis.rehearsal.judges.numbers import combine_numbers, unify_numbers
from precis.rehearsal.judges.reader import WORDS_MAX
from precis.text import count_words, sentences, tokens

_PIECE = 4
"""Letters of a piece: `train`, `trains` and `training` have `trai` and `rain` in common."""
_PASSAGES = 2
_PASSAGE_WORDS = 30
"""A longer sentence is read in parts of as many."""
_SATURATION = 1.2
_LENGTH = 0.75
"""BM25's k1 and b."""
_FOUND_MIN = 0.35
"""The least share of a question's pieces that the passages have, or there is no answer."""
_RECALL_MIN = 0.2
"""The least share of what the golden answer adds to its question that an answer has."""
_FIGURE = re.compile(r"\w+(?:[.,:]\w+)*")
_WORD = re.compile(r"[^\W\d_][\w'\u2019-]*")
_NEGATIONS = frozenset(tokens("no not never none nobody nothing neither nor without cannot"))


def answer(text: str, question: str) -> str:
    """Return the two best sentences of a text, in order and of 60 words at most, or
    `UNANSWERABLE`."""
    passages = _passages(text)
    wanted = Counter(_pieces(question))
    scores = _bm25(passages, wanted)
    best = sorted(range(len(passages)), key=lambda place: (-scores[place], place))[:_PASSAGES]
    while count_words(" ".join(passages[place] for place in best)) > WORDS_MAX:
        best.pop()
    chosen = [passages[place] for place in sorted(best) if scores[place] > 0]
    found = set(_pieces(" ".join(chosen)))
    if not chosen or len(found & wanted.keys()) < _FOUND_MIN * len(wanted):
        return UNANSWERABLE
    return " ".join(chosen)


def grade(question: str, golden: str, given: str) -> bool:
    """Return whether an answer has the golden answer's numbers and names, and some of what it adds.
    Of two sentences the one that comes closest must not deny it."""
    asked = set(tokens(question))
    facts = _facts(golden) - asked
    if given == UNANSWERABLE or not facts <= _facts(given) | set(tokens(given)):
        return False
    added = [token for token in tokens(golden) if token not in asked] or tokens(golden)
    wanted = set(_pieces(" ".join(added)))
    if len(wanted & set(_pieces(given))) < _RECALL_MIN * len(wanted):
        return False
    whole = set(_pieces(golden))
    closest = max(sentences(given), key=lambda one: len(whole & set(_pieces(one))))
    return (_denials(closest) - _denials(golden)) % 2 == 0


def _facts(text: str) -> set[str]:
    """Return the numbers of a text, in digits, and its capitalized words but for those that must
    be."""
    words = combine_numbers(_FIGURE.findall(unify_numbers(text)))
    found = {word for word in words if word[0].isdigit()}
    for sentence in sentences(text):
        words = _WORD.findall(sentence)
        for place, word in enumerate(words):
            must_be = place == 0 and len(words) > 3 and not words[1][0].isupper()
            if word[0].isupper() and not must_be:
                found.update(tokens(word))
    return found


def _denials(text: str) -> int:
    words = tokens(text)
    return sum(word in _NEGATIONS or word.endswith(("n't", "n\u2019t")) for word in words)


@lru_cache(maxsize=512)
def _passages(text: str) -> tuple[str, ...]:
    """Return a text's sentences; one of more than 30 words in parts of as many."""
    found = []
    for sentence in sentences(text):
        words = sentence.split()
        for start in range(0, len(words), _PASSAGE_WORDS):
            found.append(" ".join(words[start : start + _PASSAGE_WORDS]))
    return tuple(found)


def _bm25(passages: Sequence[str], wanted: Counter[str]) -> list[float]:
    counts = [_counts(passage) for passage in passages]
    lengths = [found.total() for found in counts]
    mean = sum(lengths) / max(1, len(lengths)) or 1.0
    rarity = {}
    for piece in wanted:
        holders = sum(piece in found for found in counts)
        rarity[piece] = math.log(1 + (len(counts) - holders + 0.5) / (holders + 0.5))
    scores = []
    for found, length in zip(counts, lengths, strict=True):
        norm = _SATURATION * (1 - _LENGTH + _LENGTH * length / mean)
        score = 0.0
        for piece, times in wanted.items():
            score += times * rarity[piece] * found[piece] / (found[piece] + norm)
        scores.append(score)
    return scores


@lru_cache(maxsize=32_768)
def _counts(passage: str) -> Counter[str]:
    return Counter(_pieces(passage))


def _pieces(text: str) -> Iterator[str]:
    """Every four neighbouring letters of each word; a shorter word is one piece."""
    for token in tokens(text):
        last = max(1, len(token) - _PIECE + 1)
        yield from (token[start : start + _PIECE] for start in range(last))
