"""The example 2048: its rules, its reward, and its two ways to move."""

from typing import Any

import pytest

from precis.llm.server import ChatRequest, ToolCall
from tests.support.examples import call, example, module_of, play, score_of
from tests.support.scripted_policy import ScriptedPolicy

GAME: Any = module_of(example("2048.py"))
PREFERENCE = ("down", "left", "right", "up")


def board_of(request: ChatRequest) -> list[list[int]]:
    rows = request.messages[-1]["content"].splitlines()[-4:]
    return [[int(tile.replace(".", "0")) for tile in row.split()] for row in rows]


def direction(request: ChatRequest) -> str:
    legal = GAME.legal(board_of(request))
    return next(one for one in PREFERENCE if one in legal)


def by_call(request: ChatRequest) -> ToolCall:
    return call(request, "move", direction=direction(request))


def test_the_reward_is_that_of_art_s_example() -> None:
    board = [[2, 2, 0, 0], [0] * 4, [0] * 4, [0] * 4]
    assert GAME.reward_of(board) == pytest.approx(0.2 * 1 / 9)  # a sum of 4 of 64 × 16
    board = [[32, 0, 0, 0], [0] * 4, [0] * 4, [0] * 4]
    assert GAME.reward_of(board) == pytest.approx(4 / 5 + 0.2 * 4 / 9)
    assert GAME.reward_of([[64, 2, 2, 0], [0] * 4, [0] * 4, [0] * 4]) == 2.0


async def test_games_are_played_to_their_end() -> None:
    rollouts = await play(example("2048.py"), ScriptedPolicy(by_call), 3)
    assert {score_of(one).success for one in rollouts} == {True, False}
    for rollout in rollouts:
        score = score_of(rollout)
        assert score.metrics["illegal"] == 0
        assert score.success == (score.reward == 2.0) == (score.metrics["largest_tile"] == 64)
        roles = [one["role"] for one in rollout.calls[-1].messages[2:]]
        assert roles == ["assistant", "tool"] * (len(rollout.calls) - 1)
