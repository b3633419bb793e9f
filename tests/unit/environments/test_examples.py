"""The examples are played through the recorder, and learned by the embedded policy."""

import random
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from precis.config import TrainConfig
from precis.environments.recorder import Recorder
from precis.llm.server import ChatRequest, Completion, ToolCall
from tests.support.examples import (
    EXAMPLES,
    LIMITS,
    call,
    embedded,
    example,
    module_of,
    play,
    score_of,
)
from tests.support.repository import ROOT
from tests.support.scripted_policy import ScriptedPolicy, asked

PAGE = (ROOT / "docs" / "examples.md").read_text("utf-8")
PLAYED = re.findall(r"^make rehearse ENVIRONMENT=examples/(\S+)$", PAGE, re.M)
"""The files of the page's commands."""
SCORED = [one for one in PLAYED if 'score = "ruler"' not in (EXAMPLES / one).read_text("utf-8")]
"""Those with a score of their own. The others are in `tests/services/test_mcp.py`."""

HANDS_OVER = ["openai_agents.py"]
"""Its first tools take no arguments; `tests/services/test_frameworks.py` makes bad calls of it."""


def any_free_cell(request: ChatRequest) -> ToolCall:
    free = [sign for sign in request.messages[-1]["content"] if sign.isdigit()]
    cell = random.Random(str(request.messages)).choice(free)
    return call(request, "play", cell=int(cell))


class TwoCalls(ScriptedPolicy):
    """Makes a second call in each message, as hosted models do in parallel; it is no move."""

    async def __call__(self, request: ChatRequest) -> Completion:
        completion = await super().__call__(request)
        (choice,) = completion.choices
        (call,) = choice.tool_calls
        calls = [call, replace(call, id=f"{call.id}-again", arguments="{}")]
        return replace(completion, choices=[replace(choice, tool_calls=calls)])


@pytest.mark.parametrize(
    ("name", "say"), [("tic_tac_toe.py", any_free_cell), ("2048.py", embedded().say)]
)
async def test_every_call_of_a_message_is_answered_and_the_first_is_played(
    name: str, say: Callable[[ChatRequest], str | ToolCall]
) -> None:
    policy = TwoCalls(say)
    (rollout,) = await play(example(name), policy, 1)
    assert rollout.metrics["illegal"] < rollout.metrics["turns"]
    made = []
    answered = []
    for message in policy.requests[-1].messages:
        made += [one["id"] for one in message.get("tool_calls") or ()]
        answered += [message["tool_call_id"]] if message["role"] == "tool" else []
    assert made == answered
    assert len(made) == 2 * (len(rollout.calls) - 1) > 0


def test_an_example_is_a_page_of_code() -> None:
    for file in EXAMPLES.glob("*.py"):
        text = file.read_text("utf-8")
        assert len(text.splitlines()) <= 150, file
        if "async def rollout" in text:
            assert file.name in PLAYED
            assert f"ENVIRONMENT=examples/{file.name}" in text


@pytest.mark.parametrize("name", SCORED)
async def test_the_embedded_policy_has_an_answer_to_every_request(name: str) -> None:
    policy = embedded()
    rollouts = await play(example(name), policy, 2)
    assert len(policy.requests) == sum(len(one.calls) for one in rollouts)
    for rollout in rollouts:
        assert score_of(rollout).success in (True, False)
        assert rollout.metrics["turns"] == len(rollout.calls)
    assert len({str(call.message) for one in rollouts for call in one.calls}) > 1


ARGUMENTS = [
    "null",
    "[" * 1500,
    '{"a":' * 1200,
    '{"NAME": {"$gt": 0}}',
    '{"NAME": 1e999}',
    '{"NAME": NaN}',
    '{"NAME": ' + "9" * 5000 + "}",
    '{"NAME": "\\u0000\\ud83d"}',
    '{"NAME": [[[]]], "__class__": {"__init__": 1}}',
    "\x00\x1b[2J",
]


@pytest.mark.parametrize("name", [one for one in SCORED if one not in HANDS_OVER])
async def test_an_agent_that_makes_no_call_of_use_ends_at_a_limit_with_a_score(name: str) -> None:
    def say(request: ChatRequest) -> str | ToolCall:
        if any(one["role"] == "assistant" for one in request.messages):
            return "I would rather not."
        if arguments == "an unknown tool":
            return call(request, "no_such_tool")
        function = (request.tools or [])[0]["function"]
        argument = next(iter(function["parameters"]["properties"]))
        return ToolCall("first", function["name"], arguments.replace("NAME", argument))

    environment = example(name)
    scenario = environment.scenarios("train")[0]
    async with (
        environment,
        asked(ScriptedPolicy(say), limits=LIMITS) as policy,
        Recorder() as recorder,
    ):
        for arguments in [*ARGUMENTS, "an unknown tool"]:
            rollout = await recorder.run(policy, environment, scenario)
            score = score_of(rollout)
            assert not score.success, arguments
            assert score.reward <= 0, arguments
            assert score.metrics["illegal"] == len(rollout.calls) <= 10, arguments


async def test_games_are_played_to_their_end() -> None:
    rollouts = await play(example("tic_tac_toe.py"), ScriptedPolicy(any_free_cell), 24)
    assert {score_of(one).reward for one in rollouts} == {0.0, 0.5, 1.0}
    for rollout in rollouts:
        assert rollout.metrics == {"turns": len(rollout.calls), "illegal": 0}
        assert score_of(rollout).success == (rollout.reward == 1.0)


def test_a_perfect_opponent_never_loses() -> None:
    game: Any = module_of(example("tic_tac_toe.py", STRENGTH=1.0))
    chance = random.Random(1)
    for _ in range(50):
        board = "123456789"
        while game.free(board) and not game.winner(board):
            board = board.replace(chance.choice(game.free(board)), "x")
            if game.free(board) and not game.winner(board):
                board = game.answered(board, chance)
        assert game.winner(board) != "x"


@pytest.mark.parametrize(
    ("environment", "trainer", "problem"),
    [
        ("a.py", "extractive", "picks sentences of documents"),
        ("summaries", "tool_calls", "writes no text"),
    ],
)
def test_a_policy_without_a_use_is_refused(environment: str, trainer: str, problem: str) -> None:
    given = {"environment": environment, "trainer": {"kind": trainer}}
    with pytest.raises(ValueError, match=problem):
        TrainConfig.model_validate(given)
