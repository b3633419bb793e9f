"""The embedded policy of agents: its options, its view of them, its answers and its training."""

import tracemalloc
from typing import Any

import art
import numpy as np
import pytest

from precis.errors import TrainerError
from precis.llm.server import ApiError, ChatRequest
from precis.rehearsal.checkpoint_files import initial_state
from precis.rehearsal.endpoint import prompt_ids
from precis.rehearsal.tool_calls.features import WEIGHTS, see
from precis.rehearsal.tool_calls.kind import TOOL_CALLS, CallSample
from precis.rehearsal.tool_calls.options import OPTIONS_MAX, Option, list_options
from tests.support import echoing
from tests.support.rollouts import calling


def tool(name: str, required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    wanted = list(properties) if required is None else required
    schema = {"type": "object", "properties": properties, "required": wanted}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


def user(text: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": text}]


def contents(*tools: dict[str, Any]) -> list[str]:
    return [one.content for one in list_options(user("Go."), tools)]


def test_schemas_of_any_tool_are_read_and_what_is_not_required_may_be_absent() -> None:
    found = contents(tool("move", required=["side"], side={"const": 1}, far={"type": "boolean"}))
    assert found == ['{"side": 1, "far": false}', '{"side": 1, "far": true}', '{"side": 1}']
    assert contents(tool("move", required=[], note={"type": "string"})) == ["{}"]
    row = {"type": "integer", "minimum": 1.0, "maximum": 2.5}
    assert contents(tool("move", row=row)) == ['{"row": 1}', '{"row": 2}']
    wide = {"type": "integer", "minimum": 0, "maximum": 2**64 - 1}
    assert contents(tool("move", required=[], count=wide, anything=True)) == ["{}"]
    named = tool("move", side={"$ref": "#/$defs/Side"})
    named["function"]["parameters"]["$defs"] = {"Side": {"enum": ["left"]}}
    assert contents(named) == ['{"side": "left"}']


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
def test_a_request_without_a_choice_is_refused(messages: Any, tools: Any, complaint: str) -> None:
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


def test_the_choice_of_a_tool_is_heeded() -> None:
    asked = ChatRequest(
        model="m", messages=user("[a] or [b]"), tools=[echoing.PRESS], tool_choice="none"
    )
    (answer,) = TOOL_CALLS.answer(initial_state(TOOL_CALLS.layout, 1).policy, asked)
    assert not answer.tool_calls


@pytest.mark.parametrize("arguments", [{"colour": "yellow"}, "{"])
def test_a_call_that_its_request_does_not_allow_is_not_imitated(arguments: object) -> None:
    messages: Any = [*user("The lamp is red."), calling("press", arguments)]
    tools: Any = [echoing.PRESS]
    shown = art.Trajectory(messages_and_choices=messages, tools=tools)
    with pytest.raises(TrainerError, match="none of the 3 that its request allows"):
        TOOL_CALLS.demonstrations_of(shown)


def test_a_prompt_s_tokens_are_its_tools_and_its_messages() -> None:
    messages = [*user("a"), *user("b")]
    ids = prompt_ids(messages, [echoing.PRESS])
    assert len(ids) == 3
    assert ids[:2] == prompt_ids(messages[:1], [echoing.PRESS])
    assert prompt_ids(messages, None) == ids[1:]
    # Vercel's SDK resends arguments without spaces, and OpenAI's adds them once more, parsed.
    resent = calling("press", '{"colour":"red"}', id="2")
    resent["tool_calls"][0]["function"]["parsed_arguments"] = {"colour": "red"}
    called = calling("press", {"colour": "red"})
    parsed = calling("press", {}, id="3")
    parsed["tool_calls"][0]["function"]["arguments"] = {"colour": "red"}  # as Ollama's clients do
    assert prompt_ids([resent], None) == prompt_ids([parsed], None) == prompt_ids([called], None)


def sample(number: int) -> CallSample:
    words = " ".join(f"word{one}" for one in range(number, number + 40))
    asked = user(f"Choose a number by these words: {words}.")
    choose = tool("choose", number={"enum": list(range(OPTIONS_MAX))})
    seen = see(asked, list_options(asked, [choose]))
    return CallSample(seen, (number,), number, 0.0, 1.0, (number,))


def test_a_batch_of_many_options_is_laid_out_a_part_at_a_time() -> None:
    samples = [sample(number) for number in range(4)] * 16
    weights = np.linspace(-1.0, 1.0, WEIGHTS)
    tracemalloc.start()
    batch = TOOL_CALLS.batch_of(samples, [1.0] * 64)
    scores = batch.scores(weights)
    gradient = batch.gradient(scores)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 120 * 2**20
    alone = [TOOL_CALLS.batch_of([one], [1.0]) for one in samples[:4]] * 16
    assert np.array_equal(scores, np.concatenate([one.scores(weights) for one in alone]))
    parts = [one.gradient(scores[[row]]) for row, one in enumerate(alone)]
    assert np.allclose(gradient, np.sum(parts, axis=0))
