"""The places of a call's arguments in the messages to the policy."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from precis.rehearsal.tool_calls.options import Message, Option, text_of

AROUND = 3
"""The number of words seen before a place, and behind it."""

_WORD = re.compile(r"\w+|[^\w\s]")
_LETTERS = re.compile(r"[^\W\d_]+")
_DIGITS = re.compile(r"\d+")
_SHAPE_MAX = 12
_MARKS = re.compile(r"^(?:\[|<\w+>)|(?:\]|</\w+>)$")
"""Brackets, or an element, around a possible answer."""

Hashes = NDArray[np.uint64]
Line = tuple[int, int]
"""A line, by its text's index, 0 for the newest, and its index in that text."""


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


@lru_cache(maxsize=1 << 12)
def read(text: str) -> ReadText:
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


@dataclass(frozen=True, eq=False)
class Place:
    """Words in a text, from a word's index on."""

    text: ReadText
    start: int

    @property
    def line(self) -> frozenset[str]:
        """The words of the line that they begin in."""
        return self.text.lines[self.text.line_of[self.start]]

    def around(self, length: int) -> Hashes:
        """Return the hashes of the words before the place and behind that many words from it."""
        end = self.start + AROUND + length
        hashes = self.text.hashes
        return np.concatenate(
            [hashes[self.start : self.start + AROUND], hashes[end : end + AROUND]]
        )


@dataclass(frozen=True, eq=False)
class ArgumentPointer:
    """An argument of a call, and the places of its value.

    Attributes:
        length: of the value, in words.
        age: how many messages are newer than the newest one with it; None if no message has it.
        times: how often that message has it.
        newest: its last place in that message.
        best: its place in the most relevant line of any message.
        lines: all lines with it, except those of the task.
    """

    name: str = ""
    value: str = ""
    length: int = 0
    age: int | None = None
    times: int = 0
    newest: Place | None = None
    best: Place | None = None
    lines: frozenset[Line] = frozenset()


class HeardMessages:
    """All messages to the policy, newest first. A line's relevance grows with the words it shares
    with the task, the first user message, and with their rarity."""

    def __init__(self, messages: Sequence[Message]) -> None:
        heard = [one for one in messages if one.get("role") != "assistant"] or list(messages)
        roles = [one.get("role") for one in heard]
        first = roles.index("user") if "user" in roles else 0
        self._task_number = len(heard) - 1 - first
        self._texts = [read(text_of(one)) for one in reversed(heard)]
        self.task = self._texts[self._task_number]
        lines: list[frozenset[str]] = []
        for number, text in enumerate(self._texts):
            if number != self._task_number:
                lines += text.lines
        self._weights = {}
        for word in sorted(set(self.task.words)):
            having = sum(word in line for line in lines)
            if having and word[0].isalnum():
                self._weights[word] = 1 / having

    def relevance(self, line: Line) -> float:
        words = self._texts[line[0]].lines[line[1]]
        return sum(weight for word, weight in self._weights.items() if word in words)

    def point(self, name: str, value: str) -> ArgumentPointer:
        """Return the places of an argument's value."""
        words = read(value).words
        age: int | None = None
        of_newest: list[Place] = []
        in_task: list[tuple[Place, Line]] = []
        others: list[tuple[Place, Line]] = []
        for number, text in enumerate(self._texts):
            for start in text.find(words):
                place = Place(text, start)
                if age is None:
                    age = number
                if number == age:
                    of_newest.append(place)
                found = in_task if number == self._task_number else others
                found.append((place, (number, text.line_of[start])))
        if age is None:
            return ArgumentPointer(name, value, len(words))
        best, _ = max(others or in_task, key=lambda one: self.relevance(one[1]))
        lines = frozenset(line for _, line in others)
        times = len(of_newest)
        return ArgumentPointer(name, value, len(words), age, times, of_newest[-1], best, lines)


def arguments_of(option: Option) -> list[tuple[str, str]]:
    """Return a call's arguments, each with its value as text; a text option has one, its text."""
    if not option.name:
        return [("", _MARKS.sub("", option.content))]
    found = []
    for name, value in json.loads(option.content).items():
        found.append((name, value if isinstance(value, str) else json.dumps(value)))
    return found
