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


def test_an_argument_that_is_not_required_may_be_absent() -> None:
    found = contents(tool("move", required=["side"], side={"const": 1}, far={"type": "boolean"}))
    assert found == ['{"side": 1, "far": false}', '{"side": 1, "far": true}', '{"side": 1}']
    assert contents(tool("move", required=[], note={"type": "string"})) == ["{}"]


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
