"""What the policy sees of a sentence: its marks of fact, its place, its likeness to the rest.

Every column is standardised within its document, so that weights learned on one document mean
the same on another of any length or subject.
"""

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from precis.extractive.marks import MARKS, count_marks
from precis.text import count_words, sentences, tokens

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

FEATURES_VERSION = 1
"""Raised when a column changes its meaning: weights of another version do not apply."""

_SHAPE = ("position", "opening", "closing", "paragraph_start", "length", "length_rank", "letters")
_DENSITY = ("number_density", "name_density", "fact_density")
_LIKENESS = ("rarity", "centrality", "centrality_rank", "redundancy", "continuity")

NAMES: tuple[str, ...] = (*MARKS, *_DENSITY, *_SHAPE, *_LIKENESS)
"""Names of the columns of `Features.matrix`."""

_FACTS = ("numbers", "number_words", "money", "units", "dates", "times", "names", "acronyms")
_PIECE_WORDS_MAX = 80
_CLIP = 3.0


@dataclass(frozen=True, eq=False)
class Features:
    """A document as the policy sees it.

    Attributes:
        sentences: in document order.
        words: each sentence's length in words, shape (sentences,).
        matrix: standardised features, shape (sentences, len(NAMES)).
    """

    sentences: tuple[str, ...]
    words: Integers
    matrix: Floats


@lru_cache(maxsize=256)
def featurize(text: str) -> Features:
    """The features of a document's sentences; the same text always gives the same bits.

    Text without sentence ends (a table, a transcript) is cut into pieces of at most 80 words,
    so that a policy has something to choose from.
    """
    found = [piece for sentence in sentences(text) for piece in _pieces(sentence)]
    words = np.array([count_words(sentence) for sentence in found], dtype=np.int64)
    if not found:
        return Features((), words, np.zeros((0, len(NAMES))))
    spoken = [tokens(sentence) for sentence in found]
    marks = np.array([count_marks(*pair) for pair in zip(found, spoken, strict=True)], np.float64)
    columns = [np.log1p(marks), _density(marks, words), _shape(text, found, words)]
    matrix = _standardised(np.concatenate([*columns, _likeness(spoken)], axis=1))
    for array in (words, matrix):
        array.flags.writeable = False
    return Features(tuple(found), words, matrix)


def _pieces(sentence: str) -> list[str]:
    if count_words(sentence) <= _PIECE_WORDS_MAX:
        return [sentence]
    words = sentence.split()
    starts = range(0, len(words), _PIECE_WORDS_MAX)
    return [" ".join(words[start : start + _PIECE_WORDS_MAX]) for start in starts]


def _density(marks: Floats, words: Integers) -> Floats:
    """Facts per word: the budget is in words, so a short sentence with a name is a bargain."""
    groups = (("numbers",), ("names",), _FACTS)
    counts = [marks[:, [MARKS.index(name) for name in group]].sum(axis=1) for group in groups]
    return np.stack(counts, axis=1) / words[:, None]


def _shape(text: str, found: list[str], words: Integers) -> Floats:
    position = np.linspace(0.0, 1.0, len(found))
    letters = np.array([len(sentence) for sentence in found]) / words
    return np.stack(
        [
            position,
            np.exp(-8 * position),
            np.exp(-8 * (1 - position)),
            _starts_paragraph(text, found),
            np.log(words),
            _ranks(words.astype(np.float64)),
            letters,
        ],
        axis=1,
    )


def _starts_paragraph(text: str, found: list[str]) -> Floats:
    starts, end = [], 0
    for sentence in found:
        start = max(text.find(sentence, end), end)
        starts.append(float("\n" in text[end:start] or end == 0))
        end = start + len(sentence)
    return np.array(starts)


def _likeness(spoken: list[list[str]]) -> Floats:
    """TF-IDF within the document: how rare a sentence's words are, and whom it resembles.

    In plain Python and in reading order, so that a long document costs time in proportion to
    its words, and sums do not depend on a BLAS and its number of threads.
    """
    counts = [Counter(words) for words in spoken]
    holders = Counter(token for count in counts for token in count)
    rarities = {token: math.log(len(spoken) / held) for token, held in holders.items()}
    weighted = [{word: n * rarities[word] for word, n in count.items()} for count in counts]
    units = [_unit(weights) for weights in weighted]
    centre: defaultdict[str, float] = defaultdict(float)
    for unit in units:
        for word, weight in unit.items():
            centre[word] += weight / len(units)
    rarity = [
        sum(weights.values()) / max(count.total(), 1)
        for weights, count in zip(weighted, counts, strict=True)
    ]
    centrality = np.array([_dot(unit, centre) for unit in units])
    continuity = [0.0, *(_dot(after, before) for before, after in itertools.pairwise(units))]
    columns = (rarity, centrality, _ranks(centrality), _familiar(weighted), continuity)
    return np.stack([np.array(column) for column in columns], axis=1)


def _familiar(weighted: list[dict[str, float]]) -> list[float]:
    """The share of each sentence's weight that lies on words which came earlier."""
    seen: set[str] = set()
    shares = []
    for weights in weighted:
        known = sum(weight for word, weight in weights.items() if word in seen)
        shares.append(known / (sum(weights.values()) or 1.0))
        seen.update(weights)
    return shares


def _unit(weights: dict[str, float]) -> dict[str, float]:
    norm = math.sqrt(sum(weight * weight for weight in weights.values())) or 1.0
    return {word: weight / norm for word, weight in weights.items()}


def _dot(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    return sum(weight * other.get(word, 0.0) for word, weight in one.items())


def _ranks(values: Floats) -> Floats:
    """Each value's rank in 0..1; equal values share the lowest."""
    ranks: Floats = np.searchsorted(np.sort(values), values) / max(len(values) - 1, 1)
    return ranks


def _standardised(matrix: Floats) -> Floats:
    """Mean 0 and deviation 1 down each column, outliers clipped; constant columns are 0."""
    centred = matrix - matrix.mean(axis=0)
    deviation = np.sqrt((centred**2).mean(axis=0))
    scaled: Floats = centred / np.where(deviation > 1e-9, deviation, np.inf)
    return scaled.clip(-_CLIP, _CLIP)
