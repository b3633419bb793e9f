"""The features of a sentence: its marks of fact, and its redundancy with earlier ones.

Columns are standardised within a document, so that weights mean the same on any other. Position,
length, likeness and kinds of number are left out: what they predict in the bundled stories is not
true of other prose.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

import numpy as np

from precis.rehearsal.kind import Floats, Integers
from precis.text import count_words, sentences, tokens

FEATURES_VERSION = 3
"""Raised when the meaning of a column changes: weights of another version do not apply."""

_PIECE_WORDS_MAX = 80
_CLIP = 3.0

_PATTERNS: dict[str, re.Pattern[str]] = {
    "numbers": re.compile(r"\d[\d.,:/]*"),
    "names": re.compile(r"(?<=[\w,;)] )[A-Z][^\W\d_]+"),
}

_WORDS: dict[str, list[str]] = {
    "causes": tokens(
        "because due cause caused owing since after therefore led blamed reason reasons cited "
        "following avoid prevent reduce ensure protect so result"
    ),
    "hedges": tokens(
        "may might could perhaps generally often usually sometimes many some various such "
        "always most every any all"
    ),
}

NAMES: tuple[str, ...] = (*_PATTERNS, *_WORDS, "redundancy")
"""Names of the columns of `Features.matrix`."""


@dataclass(frozen=True, eq=False)
class Features:
    """A document's sentences, their lengths in words, and their standardised features, shape
    (sentences, len(NAMES))."""

    sentences: tuple[str, ...]
    words: Integers
    matrix: Floats


@lru_cache(maxsize=256)
def featurize(text: str) -> Features:
    """Return the features of a document's sentences, bit-identical for the same text. Text without
    sentence ends (a table, a transcript) is cut into pieces of at most 80 words, so that a policy
    has a choice."""
    found: list[str] = []
    for sentence in sentences(text):
        if count_words(sentence) <= _PIECE_WORDS_MAX:
            found.append(sentence)
            continue
        parts = sentence.split()
        for start in range(0, len(parts), _PIECE_WORDS_MAX):
            found.append(" ".join(parts[start : start + _PIECE_WORDS_MAX]))
    words = np.array(list(map(count_words, found)), dtype=np.int64)
    if not found:
        return Features((), words, np.zeros((0, len(NAMES))))
    spoken = list(map(tokens, found))
    marks = []
    for sentence, said in zip(found, spoken, strict=True):
        counts = [len(pattern.findall(sentence)) for pattern in _PATTERNS.values()]
        for listed in _WORDS.values():
            counts.append(sum(token in listed for token in said))
        marks.append(counts)
    matrix = np.column_stack([np.log1p(np.array(marks, dtype=np.float64)), _redundancy(spoken)])
    # Mean 0 and deviation 1 down each column, outliers clipped; constant columns are 0.
    centred = matrix - matrix.mean(axis=0)
    deviation = np.sqrt((centred**2).mean(axis=0))
    matrix = (centred / np.where(deviation > 1e-9, deviation, np.inf)).clip(-_CLIP, _CLIP)
    for array in (words, matrix):
        array.flags.writeable = False
    return Features(tuple(found), words, matrix)


def _redundancy(spoken: Sequence[Sequence[str]]) -> Floats:
    """Return the share of each sentence's weight (TF-IDF) on words of earlier sentences. In plain
    Python and reading order, so that sums do not depend on a BLAS and its threads."""
    holders = Counter(chain.from_iterable(map(set, spoken)))
    seen: set[str] = set()
    shares = []
    for words in spoken:
        weights = {}
        for word, count in Counter(words).items():
            weights[word] = count * math.log(len(spoken) / holders[word])
        known = sum(weight for word, weight in weights.items() if word in seen)
        shares.append(known / (sum(weights.values()) or 1.0))
        seen.update(weights)
    return np.array(shares)
