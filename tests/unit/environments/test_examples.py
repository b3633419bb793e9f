"""The examples are played through the recorder, and learned by the embedded policy."""

import random
from pathlib import Path
from typing import Any

import pytest

from precis.config import TrainConfig
from precis.environments.protocol import Environment
from precis.environments.python import load_python
from precis.environments.recorder import Recorder
from precis.llm.server import ChatRequest, ToolCall
from precis.records.rollout import Rollout, Score
from precis.rehearsal.kind import untrained
from precis.rehearsal.tool_calls.kind import TOOL_CALLS
from tests.support.scripted_policy import ScriptedPolicy, asked

EXAMPLES = Path(__file__).parents[3] / "examples"
FILE = EXAMPLES / "tic_tac_toe.py"


async def play(environment: Environment, scripted: ScriptedPolicy, games: int) -> list[Rollout]:
    scenarios = environment.scenarios("train")[:games]
    async with asked(scripted) as policy, Recorder() as recorder:
        return [await recorder.run(policy, environment, one) for one in scenarios]


def any_free_cell(request: ChatRequest) -> ToolCall:
    free = [sign for sign in request.messages[-1]["content"] if sign.isdigit()]
    cell = random.Random(str(request.messages)).choice(free)
    return ToolCall(f"call-{len(request.messages)}", "play", f'{{"cell": {cell}}}')


def test_an_example_is_a_page_of_code() -> None:
    for file in EXAMPLES.glob("*.py"):
        assert len(file.read_text("utf-8").splitlines()) <= 100, file


async def test_games_are_played_to_their_end() -> None:
    rollouts = await play(load_python(str(FILE)), ScriptedPolicy(any_free_cell), 40)
    scores = [one.score for one in rollouts]
    assert all(isinstance(one, Score) for one in scores)
    assert {one.reward for one in scores} == {0.0, 0.5, 1.0}
    for rollout in rollouts:
        assert rollout.metrics == {"turns": len(rollout.calls), "illegal": 0}
        assert isinstance(rollout.score, Score)
        assert rollout.score.success == (rollout.reward == 1.0)


@pytest.mark.parametrize(
    "said", [ToolCall("c", "play", '{"cell": 5}'), ToolCall("c", "play", "{"), "I resign."]
)
async def test_a_move_that_is_none_loses(said: Any) -> None:
    rollouts = await play(load_python(str(FILE)), ScriptedPolicy(lambda _: said), 4)
    assert {one.reward for one in rollouts} == {0.0}
    assert {one.metrics["illegal"] for one in rollouts} == {1.0}


async def test_a_perfect_opponent_never_loses(tmp_path: Path) -> None:
    file = tmp_path / "perfect.py"
    file.write_text(FILE.read_text().replace("STRENGTH = 0.0", "STRENGTH = 1.0"))
    environment = load_python(str(file))
    rollouts = await play(environment, ScriptedPolicy(any_free_cell), 40)
    assert {one.reward for one in rollouts} <= {0.0, 0.5}
    assert environment.identity != load_python(str(FILE)).identity


async def test_a_game_is_shown_turn_by_turn_in_its_own_words() -> None:
    environment = load_python(str(FILE))
    (rollout,) = await play(environment, ScriptedPolicy(any_free_cell), 1)
    shown = environment.show(rollout)
    assert shown.count("x plays **") == len(rollout.calls)
    assert environment.nouns.success == "win rate"


async def test_the_embedded_policy_has_an_answer_to_its_requests() -> None:
    policy = untrained(TOOL_CALLS.layout, 1)
    seen: list[ToolCall] = []

    def answer(request: ChatRequest) -> ToolCall:
        (choice,) = TOOL_CALLS.answer(policy, request)
        seen.extend(choice.tool_calls)
        return choice.tool_calls[0]

    rollouts = await play(load_python(str(FILE)), ScriptedPolicy(answer), 12)
    assert len(seen) == sum(len(one.calls) for one in rollouts)
    assert len({call.arguments for call in seen}) > 1


def test_an_agent_is_trained_by_its_own_embedded_policy_unless_it_names_another() -> None:
    assert TrainConfig.model_validate({"environment": str(FILE)}).trainer.kind == "tool_calls"
    given = {"environment": {"kind": "python", "file": "a.py"}, "trainer": {"kind": "art"}}
    assert TrainConfig.model_validate(given).trainer.kind == "art"
    assert TrainConfig().trainer.kind == "extractive"


@pytest.mark.parametrize(
    ("environment", "trainer", "problem"),
    [
        ("a.py", "extractive", "picks sentences of documents"),
        ("summaries", "tool_calls", "writes no text"),
    ],
)
def test_an_embedded_policy_is_refused_where_it_can_do_nothing(
    environment: str, trainer: str, problem: str
) -> None:
    given = {"environment": environment, "trainer": {"kind": trainer}}
    with pytest.raises(ValueError, match=problem):
        TrainConfig.model_validate(given)
