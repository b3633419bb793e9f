from dataclasses import replace
from pathlib import Path

import pytest

from precis.errors import CorruptCheckpoint
from precis.rehearsal.checkpoint_files import (
    initial_state,
    keep_only,
    load,
    save,
    steps,
)
from precis.rehearsal.extractive.kind import SENTENCES
from tests.support.policies import trained_at

LAYOUT = SENTENCES.layout


def test_a_checkpoint_comes_back_to_the_bit(tmp_path: Path) -> None:
    trained = trained_at(3)
    save(tmp_path, trained, LAYOUT)
    loaded = load(tmp_path, 3, LAYOUT)
    assert (loaded.step, loaded.policy.seed, loaded.adam.count) == (3, 7, 12)
    for ours, theirs in (
        (trained.policy.weights, loaded.policy.weights),
        (trained.reference, loaded.reference),
        (trained.adam.mean, loaded.adam.mean),
        (trained.adam.square, loaded.adam.square),
    ):
        assert ours.tobytes() == theirs.tobytes()


def test_equal_states_have_equal_bytes(tmp_path: Path) -> None:
    first = save(tmp_path / "first", trained_at(2), LAYOUT) / "policy.json"
    save(tmp_path / "second", load(tmp_path / "first", 2, LAYOUT), LAYOUT)
    assert (tmp_path / "second/checkpoints/0002/policy.json").read_bytes() == first.read_bytes()


def test_leftovers_are_no_checkpoints_and_make_room_for_one(tmp_path: Path) -> None:
    save(tmp_path, initial_state(LAYOUT, 1), LAYOUT)
    checkpoints = tmp_path / "checkpoints"
    (checkpoints / "0005").mkdir()
    (checkpoints / ".writing-x").mkdir()
    (checkpoints / ".writing-x" / "policy.json").write_text("{")
    assert steps(tmp_path) == [0]
    save(tmp_path, trained_at(5), LAYOUT)
    assert steps(tmp_path) == [0, 5]


@pytest.mark.parametrize(
    "content",
    ["{", "{}", '{"policy": "tool_calls"}', '{"policy": "sentences", "features_version": 0}'],
)
def test_a_damaged_checkpoint_is_refused_by_name(tmp_path: Path, content: str) -> None:
    (save(tmp_path, initial_state(LAYOUT, 1), LAYOUT) / "policy.json").write_text(content)
    with pytest.raises(CorruptCheckpoint, match=r"0000/policy\.json can't be used"):
        load(tmp_path, 0, LAYOUT)


def test_only_the_steps_to_keep_are_kept(tmp_path: Path) -> None:
    for step in range(4):
        save(tmp_path, replace(initial_state(LAYOUT, 1), step=step), LAYOUT)
    keep_only(tmp_path, [1, 3])
    assert steps(tmp_path) == [1, 3]
