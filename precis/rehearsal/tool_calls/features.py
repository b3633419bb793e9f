"""What the policy sees of an option: pairs of the last message's words, with the option."""

import re
from collections.abc import Sequence
from functools import lru_cache
from zlib import crc32

import numpy as np

from precis.rehearsal.kind import Integers

FEATURES_VERSION = 1
"""Raised when a weight changes its meaning."""
WEIGHTS = 1 << 16
"""How many weights there are; features that fall together share one."""

_WORDS_MAX = 24
_WORD = re.compile(r"\w+|[^\w\s]")


def words_of(text: str) -> tuple[str, ...]:
    """Return the last words and signs of a text, as many as the policy looks at."""
    return tuple(_WORD.findall(text)[-_WORDS_MAX:])


@lru_cache(maxsize=1 << 15)
def features_of(words: tuple[str, ...], option: str) -> Integers:
    """Return the weights that an option's score is made of.

    One is the option's; one is that of each word, at its place from the end, with the option; and
    one that of each two words. As many for each option.
    """
    ending = f"|{option}".encode()
    checksums = [crc32(option.encode())]
    checksums += [crc32(ending, begun) for begun in _begin_checksums(words)]
    found = np.array(checksums, dtype=np.int64) % WEIGHTS
    found.flags.writeable = False
    return found


@lru_cache(maxsize=1 << 8)
def _begin_checksums(words: tuple[str, ...]) -> list[int]:
    """Return the checksums of words and pairs, from which each option's go on."""
    placed = [f"{len(words) - place}{word}".encode() for place, word in enumerate(words)]
    checksums = []
    for place, word in enumerate(placed):
        alone = crc32(word)
        checksums.append(alone)
        checksums += [crc32(other, alone) for other in placed[place + 1 :]]
    return checksums


def stack_features(words: tuple[str, ...], options: Sequence[str]) -> Integers:
    """Return the features of all options, shape (options, features)."""
    return np.stack([features_of(words, option) for option in options])
