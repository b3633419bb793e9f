"""Which answers a request allows."""

from typing import Any

import pytest

from precis.llm.server import ApiError
from precis.rehearsal.tool_calls.options import OPTIONS_MAX, Option, list_options


def tool(name: str, required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    wanted = list(properties) if required is None else required
    schema = {"type": "object", "properties": properties, "required": wanted}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


def user(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


def contents(*tools: dict[str, Any]) -> list[str]:
    return [one.content for one in list_options(user("Go."), tools)]


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        ({"enum": ["left", 2]}, ['"left"', "2"]),
        ({"const": None}, ["null"]),
        ({"type": "boolean"}, ["false", "true"]),
        ({"type": "integer", "minimum": 3, "maximum": 5}, ["3", "4", "5"]),
    ],
)
def test_a_schema_that_lists_its_values_is_listed(schema: Any, values: list[str]) -> None:
    assert contents(tool("move", to=schema)) == [f'{{"to": {value}}}' for value in values]


def test_all_combinations_of_all_tools_are_options() -> None:
    move = tool("move", side={"enum": ["left", "right"]}, far={"type": "boolean"})
    found = list_options(user("Go."), [move, tool("stop")])
    assert [one.name for one in found] == ["move"] * 4 + ["stop"]
    assert found[1] == Option("move", '{"side": "left", "far": true}')
    assert found[-1].content == "{}"


def test_an_argument_that_is_not_required_may_be_absent() -> None:
    found = contents(tool("move", required=["side"], side={"const": 1}, far={"type": "boolean"}))
    assert found == ['{"side": 1, "far": false}', '{"side": 1, "far": true}', '{"side": 1}']
    assert contents(tool("move", required=[], note={"type": "string"})) == ["{}"]


def test_a_tool_that_needs_free_text_is_left_to_language_models() -> None:
    assert contents(tool("say", text={"type": "string"}), tool("stop")) == ["{}"]


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
    ],
)
def test_a_request_with_nothing_to_choose_from_is_refused(
    messages: Any, tools: Any, complaint: str
) -> None:
    with pytest.raises(ApiError, match=complaint) as refused:
        list_options(messages, tools)
    assert refused.value.status == 400


def test_without_tools_the_options_stand_in_brackets() -> None:
    found = list_options(user("You may go [left] or [B2], or [left] again."), [])
    assert found == [Option("", "[left]"), Option("", "[B2]")]
    assert found[0].message("") == {"role": "assistant", "content": "[left]"}


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


def test_a_call_has_one_token_whatever_its_id() -> None:
    option = Option("move", '{"to": 1}')
    other = Option("move", '{"to": 2}')
    assert option.token == Option("move", '{"to": 1}').token != other.token
    assert option.message("a")["tool_calls"][0]["id"] == "a"
