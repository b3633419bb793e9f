"""The features of an option, independent of the tools' subject.

An option's score is the sum of its groups' means; each feature has a weight by its hash:

- memorized: the last message's words at their places, and pairs of them, with the whole option;
- so far: the turn, the last call, how often this one was made, and the last message's first words,
  each with the tool;
- for each argument, the place of its value in the messages: its form, its age, and the words around
  it, each with each word of the task. The value itself is not seen, so that the weights apply to
  other texts;
- for two arguments, whether they are in one line, and that line's relevance to the task.
"""

import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from precis.records.rollout import parsed_calls
from precis.rehearsal.kind import Floats
from precis.rehearsal.tool_calls.options import Message, Option, text_of
from precis.rehearsal.tool_calls.pointers import (
    AROUND,
    ArgumentPointer,
    Hashes,
    HeardMessages,
    Line,
    arguments_of,
    hashes_of,
    mix,
    read,
    shape_of,
)

WEIGHTS = 1 << 17
"""The number of weights: one half for memorized features, the other for the rest. Colliding
features share one."""

_SCALE_BY_HEART = 24.0
_SCALE = 8.0
"""A group's part of a score is the mean of its weights, times this, so that the learning rate means
the same for short and long messages."""
_LAST_WORDS = 24
_PAIRED_WORDS = 16
_TASK_WORDS = 12
_FIRST_WORDS = 4
_ARGUMENTS_MAX = 2
_MANY = 3
"""Larger numbers count as this."""
_NOTHING = hashes_of(["nothing"] * 2 * AROUND)
"""The surroundings of a value that is in no message."""


@dataclass(frozen=True, eq=False)
class Seen:
    """The weights of each option, shape (options, features), and the factor of each."""

    features: NDArray[np.int32]
    shares: Floats

    def scores(self, weights: Floats) -> Floats:
        scores: Floats = (weights[self.features] * self.shares).sum(axis=1)
        return scores


def see(messages: Sequence[Message], options: Sequence[Option]) -> Seen:
    conversation = HeardMessages(messages)
    pointers = []
    for option in options:
        arguments = arguments_of(option)[:_ARGUMENTS_MAX]
        pointers.append([conversation.point(*one) for one in arguments])
    groups = [_by_heart(messages, options), _so_far(messages, options)]
    most = max(map(len, pointers))
    for place in range(most):
        of_place = [one[place] if place < len(one) else ArgumentPointer() for one in pointers]
        groups += _pointing(conversation, options, of_place)
    if most > 1:
        groups.append(_together(conversation, options, pointers))
    halves = [0] + [WEIGHTS // 2] * (len(groups) - 1)
    scales = [_SCALE_BY_HEART] + [_SCALE] * (len(groups) - 1)
    features = []
    shares = []
    for group, half, scale in zip(groups, halves, scales, strict=True):
        features.append((group % np.uint64(WEIGHTS // 2)).astype(np.int32) + np.int32(half))
        shares.append(np.full(group.shape[1], scale / group.shape[1]))
    return Seen(np.concatenate(features, axis=1), np.concatenate(shares))


def _by_heart(messages: Sequence[Message], options: Sequence[Option]) -> Hashes:
    words = hashes_of(read(text_of(messages[-1])).words[-_LAST_WORDS:])
    placed = mix(words, np.arange(len(words), 0, -1, dtype=np.uint64))
    paired = placed[-_PAIRED_WORDS:]
    first, second = np.triu_indices(len(paired), 1)
    seen = np.concatenate([hashes_of([""]), placed, mix(paired[first], paired[second])])
    whole = hashes_of([f"{one.name}{one.content}" for one in options])
    return mix(whole[:, None], seen)


def _so_far(messages: Sequence[Message], options: Sequence[Option]) -> Hashes:
    made = []
    for message in messages:
        for name, arguments in parsed_calls(message):
            made.append((name, json.dumps(arguments)))
    turn = f"turn {min(len(made), 2 * _MANY)}"
    last = f"after {made[-1][0] if made else ''}"
    begins = read(text_of(messages[-1])).words[:_FIRST_WORDS]
    common = ["", turn, last, f"{turn} {last}"]
    for at, word in enumerate(begins):
        common.append(f"{at} {word}")
    rows = []
    for option in options:
        times = f"made {min(made.count((option.name, option.content)), _MANY)}"
        rows.append([f"{option.name} {one}" for one in (*common, times, f"{times} {last}")])
    return _hashes_of(rows)


def _pointing(
    conversation: HeardMessages, options: Sequence[Option], pointers: Sequence[ArgumentPointer]
) -> list[Hashes]:
    """Return the groups of an argument's features, each of shape (options, features)."""
    names = []
    lines_of = []
    for option, pointer in zip(options, pointers, strict=True):
        names.append(f"{option.name} {pointer.name}")
        lines_of.append(pointer.lines)
    ranks = _rank(conversation, names, lines_of)
    task = conversation.task.words[-_TASK_WORDS:]
    marks = []
    shapes = []
    lines = []
    around = []
    for pointer, rank in zip(pointers, ranks, strict=True):
        age = f"age {'' if pointer.age is None else min(pointer.age, _MANY)}"
        times = f"times {min(pointer.times, _MANY)}"
        shape = f"shape {shape_of(pointer.value)}"
        shapes.append(shape)
        marks.append([age, shape, f"{age} {shape}", f"{age} {times}", rank, f"{rank} {age}"])
        line: frozenset[str] = frozenset()
        surroundings = [_NOTHING, _NOTHING]
        if pointer.best is not None and pointer.newest is not None:
            line = pointer.best.line
            surroundings = [
                pointer.best.around(pointer.length),
                pointer.newest.around(pointer.length),
            ]
        around.append(surroundings)
        lines.append([f"line {len(task) - at} {one in line}" for at, one in enumerate(task)])
    count = len(options)
    asked = hashes_of(task)
    single = mix(np.array(around), np.arange(2 * AROUND, dtype=np.uint64))
    paired = mix(single[:, :, :-1], single[:, :, 1:])
    groups = [
        _hashes_of(marks),
        mix(hashes_of(shapes)[:, None], asked),
        np.concatenate([single.reshape(count, -1), paired.reshape(count, -1)], axis=1),
        mix(single[:, :, :, None], asked).reshape(count, -1),
        _hashes_of(lines),
    ]
    # Some are empty if the task has no words.
    return [mix(hashes_of(names)[:, None], one) for one in groups if one.shape[1]]


def _together(
    conversation: HeardMessages,
    options: Sequence[Option],
    pointers: Sequence[Sequence[ArgumentPointer]],
) -> Hashes:
    names = []
    common: list[frozenset[Line]] = []
    for option, found in zip(options, pointers, strict=True):
        names.append(option.name)
        lines = [one.lines for one in found]
        common.append(frozenset.intersection(*lines) if len(lines) > 1 else frozenset())
    ranks = _rank(conversation, names, common)
    return _hashes_of([[f"{name} {rank}"] for name, rank in zip(names, ranks, strict=True)])


def _rank(
    conversation: HeardMessages, names: Sequence[str], lines: Sequence[Collection[Line]]
) -> list[str]:
    """Rank lines by their relevance to the task, among those of the same name."""
    values = [max(map(conversation.relevance, one), default=None) for one in lines]
    counts: dict[str, Counter[float]] = {}
    for name, value in zip(names, values, strict=True):
        if value is not None:
            counts.setdefault(name, Counter())[value] += 1
    ranks = []
    for name, value in zip(names, values, strict=True):
        if value is None:
            ranks.append("in no line")
        elif value < max(counts[name]):
            ranks.append("in a line")
        else:
            ranks.append("in the best line" if counts[name][value] == 1 else "in one of the best")
    return ranks


def _hashes_of(rows: Sequence[Sequence[str]]) -> Hashes:
    return np.array([hashes_of(row) for row in rows])
