"""What the embedded policy of agents sees: where values stand, and not which they are."""

from typing import Any

import pytest

from precis.rehearsal.tool_calls.features import see
from precis.rehearsal.tool_calls.options import Option
from precis.rehearsal.tool_calls.pointers import HeardMessages

TASK = "Where does Abel live?"


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
