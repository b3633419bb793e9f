"""A run in this process that trains on a game of TextArena."""

from pathlib import Path

from precis.records.ledger import Ledger, load_ledger
from precis.records.trajectories import scan_trajectories
from tests.support.in_process import Life, one_process


async def trained(store: Path) -> tuple[Life, Ledger]:
    game = {"kind": "textarena", "game": "TicTacToe-v0", "size": 12, "val_size": 3}
    rollouts = {"groups_per_step": 2, "rollouts_per_group": 3, "scored_min": 2}
    life = Life(store, {"environment": game, "rollouts": rollouts, "steps": 1})
    with one_process(store.parent / "home"):
        await life.live()
    return life, load_ledger(life.store, "m")


async def test_a_game_is_trained_on_and_the_same_run_again_has_the_same_bits(
    tmp_path: Path,
) -> None:
    life, ledger = await trained(tmp_path / "first")
    assert [one.step for one in ledger.validations] == [0, 1]
    frame = scan_trajectories(life.store, "m", "train").collect()
    assert frame.height == 2 * 3
    assert frame["reward"].null_count() == 0
    assert set(frame["reward"]) <= {-1.0, 0.0, 1.0}
    assert all(row["turns"] >= max(1, row["illegal"]) for row in frame.iter_rows(named=True))
    assert "You are Player" in frame["messages"][0][1]["content"]
    _, again = await trained(tmp_path / "second")
    assert [one.digest for one in again.steps] == [one.digest for one in ledger.steps]
    assert again.checkpoints == ledger.checkpoints
