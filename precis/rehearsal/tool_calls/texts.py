"""Texts for the policy: words by their hashes, lines, and places of words."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

AROUND = 3
"""The number of words seen before a place, and behind it."""

_WORD = re.compile(r"\w+|[^\w\s]")
_LETTERS = re.compile(r"[^\W\d_]+")
_DIGITS = re.compile(r"\d+")
_SHAPE_MAX = 12

Hashes = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class ReadText:
    """A text for the policy: its words and signs in lower case, with their hashes between borders,
    the words of each line, and the places of each word."""

    words: tuple[str, ...]
    hashes: Hashes
    line_of: Sequence[int]
    lines: Sequence[frozenset[str]]
    places: Mapping[str, Sequence[int]]

    def find(self, words: Sequence[str]) -> list[int]:
        """Return the places of these words in sequence."""
        starts = self.places.get(words[0], ()) if words else ()
        return [one for one in starts if self.words[one : one + len(words)] == words]

    def around(self, start: int, length: int) -> Hashes:
        """Return the hashes of the words before a place and behind it."""
        end = start + AROUND + length
        return np.concatenate(
            [self.hashes[start : start + AROUND], self.hashes[end : end + AROUND]]
        )


@lru_cache(maxsize=1 << 12)
def read(text: str) -> ReadText:
    """Read a text."""
    words: list[str] = []
    line_of: list[int] = []
    lines: list[frozenset[str]] = []
    places: dict[str, list[int]] = {}
    for number, line in enumerate(text.lower().splitlines()):
        found = _WORD.findall(line)
        for word in found:
            places.setdefault(word, []).append(len(words))
            words.append(word)
        line_of += [number] * len(found)
        lines.append(frozenset(found))
    border = [""] * AROUND
    return ReadText(tuple(words), hashes_of([*border, *words, *border]), line_of, lines, places)


def hashes_of(words: Sequence[str]) -> Hashes:
    """Return the hash of each word."""
    return np.array([crc32(word.encode()) for word in words], dtype=np.uint64)


def mix(first: Hashes, second: Hashes) -> Hashes:
    """Return the hashes of ordered pairs."""
    # The steps of splitmix64 (Steele, Lea & Flood 2014): each bit depends on all.
    mixed = first * np.uint64(0x9E3779B97F4A7C15) + second
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    hashes: Hashes = mixed ^ (mixed >> np.uint64(31))
    return hashes


@lru_cache(maxsize=1 << 12)
def shape_of(value: str) -> str:
    """Return the shape of a value: `0:0` for 13:30, `Aa` for Oslo, `aa aa` for two words."""

    def letters(found: re.Match[str]) -> str:
        word = found[0]
        return ("A" if word[0].isupper() else "a") + "a" * (len(word) > 1)

    return _DIGITS.sub("0", _LETTERS.sub(letters, value))[:_SHAPE_MAX]
