"""What the embedded policy of agents sees: where values stand, and not which they are."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from precis.rehearsal.tool_calls.features import WEIGHTS, Seen, see
from precis.rehearsal.tool_calls.options import Option
from precis.rehearsal.tool_calls.pointers import ArgumentPointer, HeardMessages, arguments_of
from precis.rehearsal.tool_calls.texts import hashes_of, mix, read, shape_of

TASK = "Where does Abel live?"
REGISTER = "Abel lives in Oslo.\nBrun lives in Rome.\nThe office is in Oslo."


def messages(task: str = TASK, *said: str) -> list[dict[str, Any]]:
    call = {"id": "c", "function": {"name": "look", "arguments": '{"at": "Oslo"}'}}
    asked: list[dict[str, Any]] = [
        {"role": "system", "content": "Answer."},
        {"role": "user", "content": task},
    ]
    for text in said:
        asked.append({"role": "assistant", "content": None, "tool_calls": [call]})
        asked.append({"role": "tool", "tool_call_id": "c", "content": text})
    return asked


def answers(*values: str) -> list[Option]:
    return [Option("answer", f'{{"city": "{value}"}}') for value in values]


def not_by_heart(seen: Seen) -> list[list[int]]:
    return [row[row >= WEIGHTS // 2].tolist() for row in seen.features]


def point(value: str, *said: str) -> ArgumentPointer:
    return HeardMessages(messages(TASK, *said)).point("city", value)


def test_values_are_pointers_and_which_they_are_is_not_seen() -> None:
    told = see(messages(TASK, f"It says:\n{REGISTER}"), answers("Oslo", "Rome"))
    other = REGISTER.replace("Oslo", "Bonn").replace("Rome", "Kiel")
    again = see(messages(TASK, f"It says:\n{other}"), answers("Bonn", "Kiel"))
    assert not_by_heart(told) == not_by_heart(again)
    assert not_by_heart(told)[0] != not_by_heart(told)[1]
    by_heart = told.features < WEIGHTS // 2
    assert (told.features[by_heart] != again.features[by_heart]).all()


def test_a_value_s_best_line_has_the_most_to_do_with_the_task() -> None:
    found = point("Oslo", REGISTER, "Nothing about Oslo.\nOslo again.")
    assert (found.age, found.times) == (0, 2)
    assert found.newest is not None and found.best is not None
    assert found.newest.line == {"oslo", "again", "."}
    assert found.best.line == {"abel", "lives", "in", "oslo", "."}
    assert len(found.lines) == 4
    assert point("Paris", REGISTER).age is None
    assert point("Oslo", REGISTER, "Nothing.").age == 1


def test_a_value_of_the_task_alone_stands_there() -> None:
    found = point("Abel", "Nothing.")
    assert found.best is not None and found.best.line == set(read(TASK).words)
    assert not found.lines


def test_what_the_policy_said_itself_is_no_text_to_point_into() -> None:
    assert point("Oslo", "Nothing.").age is None


def test_a_word_that_every_line_has_says_little_of_the_task() -> None:
    conversation = HeardMessages(messages("the cellar", "the attic\nthe cellar\nthe garden"))
    relevances = [conversation.relevance((0, line)) for line in range(3)]
    assert relevances == pytest.approx([1 / 3, 4 / 3, 1 / 3])


def test_two_arguments_are_seen_to_stand_in_one_line() -> None:
    said = messages("To the cellar.", "To the cellar: red door, brass key.\nblue door, iron key.")
    pairs = [("red", "brass"), ("blue", "iron"), ("red", "iron")]
    options = [Option("unlock", f'{{"door": "{door}", "key": "{key}"}}') for door, key in pairs]
    last = see(said, options).features[:, -1]
    assert len(set(last.tolist())) == 3


def test_each_option_has_as_many_features_whatever_its_arguments() -> None:
    options = [
        Option("a", "{}"),
        Option("b", '{"x": "Oslo"}'),
        Option("c", '{"x": "Oslo", "y": 2, "z": null}'),
        Option("c", '{"x": "", "y": true}'),
    ]
    for said in ([], [""], [REGISTER]):
        for task in ("", TASK):
            seen = see(messages(task, *said), options)
            assert seen.features.shape == (4, len(seen.shares))
            assert 0 <= seen.features.min() <= seen.features.max() < WEIGHTS
            assert np.isfinite(seen.shares).all()


def test_a_text_points_as_an_argument_does() -> None:
    assert arguments_of(Option("", "[left]")) == [("", "left")]
    assert arguments_of(Option("", "<move>go left</move>")) == [("", "go left")]
    assert arguments_of(Option("a", '{"x": "b", "n": 2}')) == [("x", "b"), ("n", "2")]


def test_how_often_a_call_was_made_is_seen() -> None:
    looks = [Option("look", '{"at": "Oslo"}'), Option("look", '{"at": "Rome"}')]
    once = not_by_heart(see(messages(TASK, "Oslo Rome"), looks))
    twice = not_by_heart(see(messages(TASK, "Oslo Rome", "Oslo Rome"), looks))
    assert once[0] != twice[0]


def by_heart(*words: str) -> set[int]:
    asked = [{"role": "user", "content": " ".join(words)}]
    (row,) = see(asked, answers("a")).features
    return set(row[row < WEIGHTS // 2].tolist())


def test_words_are_known_by_heart_from_the_end_of_the_message() -> None:
    assert by_heart("b") < by_heart("a", "b")
    assert by_heart(*"x" * 5, *"y" * 24) == by_heart(*"z" * 5, *"y" * 24)


@pytest.mark.parametrize(
    ("value", "shape"),
    [("13:30", "0:0"), ("Oslo", "Aa"), ("a", "a"), ("brass key", "aa aa"), ("1,150", "0,0")],
)
def test_a_value_s_shape_is_how_it_is_written(value: str, shape: str) -> None:
    assert shape_of(value) == shape


def places(text: str, words: Sequence[str]) -> list[int]:
    return read(text).find(tuple(words))


def test_words_are_found_where_they_stand_one_after_the_other() -> None:
    assert places("A brass key, a brass Key.", ["brass", "key"]) == [1, 5]
    assert places("brass door key", ["brass", "key"]) == places("brass", []) == []


def test_hashes_of_pairs_depend_on_their_order_and_spread() -> None:
    words = hashes_of([str(number) for number in range(400)])
    pairs = mix(words[:, None], words)
    assert len(np.unique(pairs)) == 160_000
    shares = np.bincount((pairs % np.uint64(16)).astype(np.int64).ravel()) / 160_000
    assert np.abs(shares - 1 / 16).max() < 0.005
