"""Which answers a request allows, and what the embedded policy of agents sees of them."""

from typing import Any

import pytest

from precis.llm.server import ApiError
from precis.rehearsal.tool_calls.features import see
from precis.rehearsal.tool_calls.options import OPTIONS_MAX, Option, list_options
from precis.rehearsal.tool_calls.pointers import HeardMessages


def tool(name: str, required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    wanted = list(properties) if required is None else required
    schema = {"type": "object", "properties": properties, "required": wanted}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


def user(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


def contents(*tools: dict[str, Any]) -> list[str]:
    return [one.content for one in list_options(user("Go."), tools)]


def test_an_argument_that_is_not_required_may_be_absent() -> None:
    found = contents(tool("move", required=["side"], side={"const": 1}, far={"type": "boolean"}))
    assert found == ['{"side": 1, "far": false}', '{"side": 1, "far": true}', '{"side": 1}']
    assert contents(tool("move", required=[], note={"type": "string"})) == ["{}"]


def test_schemas_of_any_tool_are_read() -> None:
    row = {"type": "integer", "minimum": 1.0, "maximum": 2.5}
    assert contents(tool("move", row=row)) == ['{"row": 1}', '{"row": 2}']
    wide = {"type": "integer", "minimum": 0, "maximum": 2**64 - 1}
    assert contents(tool("move", required=[], count=wide, anything=True)) == ["{}"]


@pytest.mark.parametrize(
    ("messages", "tools", "complaint"),
    [
        (user("Go."), [tool("say", text={"type": "string"})], "give each argument an `enum`"),
        (user("Go."), [], "neither tools, nor an option in brackets"),
        (user("Go."), [tool("n", n={"type": "integer"})], "give each argument an `enum`"),
        (
            user("Go."),
            [tool("n", a={"enum": list(range(30))}, b={"enum": list(range(30))})],
            f"more than {OPTIONS_MAX} answers",
        ),
        (user("Go."), [tool("n", n={"enum": 5})], "not as OpenAI's API has them"),
        (user("Go."), ["say"], "not as OpenAI's API has them"),
    ],
)
def test_a_request_with_nothing_to_choose_from_is_refused(
    messages: Any, tools: Any, complaint: str
) -> None:
    with pytest.raises(ApiError, match=complaint) as refused:
        list_options(messages, tools)
    assert refused.value.status == 400


def test_without_brackets_the_options_are_elements_of_the_words_that_are_quoted() -> None:
    rules = (
        "Optional moves are 'left', 'right', \"up\" and `down`; don't think aloud, it's slow. "
        "Return an XML object with a single property 'move', like so: <move>left</move>"
    )
    said = [
        {"role": "system", "content": rules},
        {"role": "user", "content": "2|_\n_|2"},
        {"role": "assistant", "content": "<guess>'no'</guess>"},
        {"role": "user", "content": "_|_\n4|2"},
    ]
    moves = ["left", "right", "up", "down"]
    assert list_options(said, []) == [Option("", f"<move>{move}</move>") for move in moves]


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
