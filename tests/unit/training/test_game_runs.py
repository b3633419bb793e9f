"""Runs in this process that train on a game of TextArena, and on puzzles of reasoning-gym."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from precis.records.ledger import Ledger, load_ledger
from precis.records.trajectories import scan_trajectories
from tests.services.needs import leave_out
from tests.support.in_process import Life, one_process


@pytest.fixture(autouse=True)
def process(tmp_path: Path) -> Iterator[None]:
    with one_process(tmp_path / "home"):
        yield


async def trained(store: Path, **environment: Any) -> tuple[Life, Ledger]:
    settings = {"size": 12, "val_size": 3, **environment}
    rollouts = {"groups_per_step": 2, "rollouts_per_group": 3, "scored_min": 2}
    life = Life(store, {"environment": settings, "rollouts": rollouts, "steps": 1})
    await life.live()
    return life, load_ledger(life.store, "m")


async def test_a_game_is_trained_on_and_the_same_run_again_has_the_same_bits(
    tmp_path: Path,
) -> None:
    game = {"kind": "textarena", "game": "TicTacToe-v0"}
    life, ledger = await trained(tmp_path / "first", **game)
    assert [one.step for one in ledger.validations] == [0, 1]
    frame = scan_trajectories(life.store, "m", "train").collect()
    assert frame.height == 2 * 3
    assert frame["reward"].null_count() == 0
    assert set(frame["reward"]) <= {-1.0, 0.0, 1.0}
    assert all(row["turns"] >= max(1, row["illegal"]) for row in frame.iter_rows(named=True))
    assert "You are Player" in frame["messages"][0][1]["content"]
    _, again = await trained(tmp_path / "second", **game)
    assert [one.digest for one in again.steps] == [one.digest for one in ledger.steps]
    assert again.checkpoints == ledger.checkpoints


async def test_puzzles_are_trained_on(tmp_path: Path) -> None:
    if find_spec("reasoning_gym") is None:
        leave_out("reasoning-gym is not installed, which needs a C compiler")
    puzzles = {"kind": "reasoning_gym", "dataset": "syllogism", "answers": ["Yes", "No"]}
    life, ledger = await trained(tmp_path / "store", **puzzles)
    assert ledger.next_step == 1
    frame = scan_trajectories(life.store, "m", "train").collect()
    assert set(frame["reward"]) == {0.0, 1.0}
    held_out = scan_trajectories(life.store, "m", "validation").collect()
    assert held_out.height == 2 * 3
    assert not set(held_out["scenario_id"]) & set(frame["scenario_id"])
