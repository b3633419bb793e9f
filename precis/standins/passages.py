"""A second rule-based reader and grader, made in another way, by which the first is checked.

The first weighs a question's stems clause by clause and was fitted to prose. This one searches, as
an engine does: windows of a text, ranked by BM25 (Robertson and Zaragoza, "The Probabilistic
Relevance Framework", 2009) over pieces of words, with the constants of the textbooks. Nothing here
was fitted to anything, and the two share no more than what a word is: what pleases both is more
likely to be there.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache

from precis.standins.grader import UNANSWERABLE
from precis.text import tokens

_PIECE = 4
"""Letters of a piece: `train`, `trains` and `training` have `trai` and `rain` in common."""
_WINDOW_WORDS = 30
_WINDOWS = 3
_SATURATION = 1.2
_LENGTH = 0.75
"""BM25's k1 and b."""
_FOUND_MIN = 0.5
"""The least share of a question's pieces that the windows have, or there is no answer."""
_RECALL_MIN = 0.6
"""The least share of what the golden answer adds to its question that an answer has."""
_NUMBER = re.compile(r"\d[\d.,:]*")


def answer(text: str, question: str) -> str:
    """What a text says to a question: its best windows, in order, or `UNANSWERABLE`."""
    windows = _windows(text)
    wanted = Counter(_pieces(question))
    scores = _bm25(windows, wanted)
    best = sorted(range(len(windows)), key=lambda place: (-scores[place], place))[:_WINDOWS]
    chosen = [windows[place] for place in sorted(best) if scores[place] > 0]
    found = set(_pieces(" ".join(chosen)))
    if not chosen or len(found & wanted.keys()) < _FOUND_MIN * len(wanted):
        return UNANSWERABLE
    return "\n".join(chosen)


def grade(question: str, golden: str, given: str) -> bool:
    """Whether an answer has the golden answer's numbers, and most of what it adds to its question.

    An answer of several windows says more than was asked; what it says beside is not held against
    it.
    """
    if given == UNANSWERABLE or not set(_numbers(golden)) <= set(_numbers(given)):
        return False
    asked = set(tokens(question))
    added = [token for token in tokens(golden) if token not in asked] or tokens(golden)
    wanted = set(_pieces(" ".join(added)))
    return len(wanted & set(_pieces(given))) >= _RECALL_MIN * len(wanted)


@lru_cache(maxsize=512)
def _windows(text: str) -> tuple[str, ...]:
    """A text in windows of as many words, wherever its sentences end."""
    words = text.split()
    starts = range(0, len(words), _WINDOW_WORDS)
    return tuple(" ".join(words[start : start + _WINDOW_WORDS]) for start in starts)


def _bm25(windows: Sequence[str], wanted: Counter[str]) -> list[float]:
    counts = [_counts(window) for window in windows]
    lengths = [found.total() for found in counts]
    mean = sum(lengths) / max(1, len(lengths)) or 1.0
    rarity = {piece: _rarity(piece, counts) for piece in wanted}
    scores = []
    for found, length in zip(counts, lengths, strict=True):
        norm = _SATURATION * (1 - _LENGTH + _LENGTH * length / mean)
        score = 0.0
        for piece, times in wanted.items():
            score += times * rarity[piece] * found[piece] / (found[piece] + norm)
        scores.append(score)
    return scores


def _rarity(piece: str, counts: Sequence[Counter[str]]) -> float:
    holders = sum(piece in found for found in counts)
    return math.log(1 + (len(counts) - holders + 0.5) / (holders + 0.5))


@lru_cache(maxsize=32_768)
def _counts(window: str) -> Counter[str]:
    return Counter(_pieces(window))


def _pieces(text: str) -> Iterator[str]:
    """Every four neighbouring letters of each word; a shorter word is a piece of its own."""
    for token in tokens(text):
        last = max(1, len(token) - _PIECE + 1)
        yield from (token[start : start + _PIECE] for start in range(last))


def _numbers(text: str) -> list[str]:
    return [number.rstrip(".,:") for number in _NUMBER.findall(text)]
