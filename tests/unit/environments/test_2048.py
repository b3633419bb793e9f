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


def by_text(request: ChatRequest) -> str:
    return f"I keep the corner.\n<move>{direction(request)}</move>"


@pytest.mark.parametrize(
    ("row", "after"),
    [
        ([2, 2, 2, 2], [4, 4, 0, 0]),
        ([4, 2, 2, 0], [4, 4, 0, 0]),
        ([2, 0, 2, 4], [4, 4, 0, 0]),
        ([2, 4, 2, 4], [2, 4, 2, 4]),
        ([2, 2, 2, 0], [4, 2, 0, 0]),
    ],
)
def test_tiles_slide_and_merge_once(row: list[int], after: list[int]) -> None:
    assert GAME.slid([row] * 4, "left") == [after] * 4
    assert GAME.slid([row[::-1]] * 4, "right") == [after[::-1]] * 4
    columns = [[tile] * 4 for tile in row]
    assert GAME.slid(columns, "up") == [[tile] * 4 for tile in after]
    assert GAME.slid(columns[::-1], "down") == [[tile] * 4 for tile in after[::-1]]


def test_the_reward_is_that_of_art_s_example() -> None:
    board = [[2, 2, 0, 0], [0] * 4, [0] * 4, [0] * 4]
    assert GAME.reward_of(board) == pytest.approx(0.2 * 1 / 9)  # a sum of 4 of 64 × 16
    board = [[32, 0, 0, 0], [0] * 4, [0] * 4, [0] * 4]
    assert GAME.reward_of(board) == pytest.approx(4 / 5 + 0.2 * 4 / 9)
    assert GAME.reward_of([[64, 2, 2, 0], [0] * 4, [0] * 4, [0] * 4]) == 2.0


async def test_games_are_played_to_their_end_and_are_the_same_by_call_and_by_text() -> None:
    rollouts = await play(example("2048.py"), ScriptedPolicy(by_call), 3)
    assert {score_of(one).success for one in rollouts} == {True, False}
    for rollout in rollouts:
        score = score_of(rollout)
        assert score.metrics["illegal"] == 0
        assert score.success == (score.reward == 2.0) == (score.metrics["largest_tile"] == 64)
        roles = [one["role"] for one in rollout.calls[-1].messages[2:]]
        assert roles == ["assistant", "tool"] * (len(rollout.calls) - 1)
    (written,) = await play(example("2048.py"), ScriptedPolicy(by_text), 1)
    assert written.score == rollouts[0].score
    roles = [one["role"] for one in written.calls[-1].messages[2:]]
    assert roles == ["assistant", "user"] * (len(written.calls) - 1)
