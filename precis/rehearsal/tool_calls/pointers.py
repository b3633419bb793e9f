"""The places of a call's arguments in the messages to the policy."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from precis.rehearsal.tool_calls.options import Option, text_of
from precis.rehearsal.tool_calls.texts import ReadText, read

_MARKS = re.compile(r"^(?:\[|<\w+>)|(?:\]|</\w+>)$")
"""Brackets, or an element, around a possible answer."""

Message = Mapping[str, Any]
Line = tuple[int, int]
"""A line, by its text's index, 0 for the newest, and its index in that text."""


@dataclass(frozen=True, eq=False)
class Place:
    """Words in a text, from a word's index on."""

    text: ReadText
    start: int

    @property
    def line(self) -> frozenset[str]:
        """The words of the line that they begin in."""
        return self.text.lines[self.text.line_of[self.start]]


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
        users = [number for number, one in enumerate(heard) if one.get("role") == "user"]
        self._task_number = len(heard) - 1 - (users[0] if users else 0)
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
        """Return a line's relevance to the task."""
        words = self._texts[line[0]].lines[line[1]]
        return sum(weight for word, weight in self._weights.items() if word in words)

    def point(self, name: str, value: str) -> ArgumentPointer:
        """Return the places of an argument's value."""
        words = read(value).words
        found = []
        for number, text in enumerate(self._texts):
            found += [(number, start) for start in text.find(words)]
        if not found:
            return ArgumentPointer(name, value, len(words))
        age = found[0][0]
        of_newest = [one for one in found if one[0] == age]
        others = [one for one in found if one[0] != self._task_number]
        best = max(others or found, key=lambda one: self.relevance(self._line(*one)))
        return ArgumentPointer(
            name,
            value,
            len(words),
            age,
            len(of_newest),
            self._place(*of_newest[-1]),
            self._place(*best),
            frozenset(self._line(*one) for one in others),
        )

    def _line(self, number: int, start: int) -> Line:
        return number, self._texts[number].line_of[start]

    def _place(self, number: int, start: int) -> Place:
        return Place(self._texts[number], start)


def arguments_of(option: Option) -> list[tuple[str, str]]:
    """Return a call's arguments, each with its value as text; a text option has one, its text."""
    if not option.name:
        return [("", _MARKS.sub("", option.content))]
    arguments = json.loads(option.content).items()
    return [(name, one if isinstance(one, str) else json.dumps(one)) for name, one in arguments]
