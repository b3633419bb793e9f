from pathlib import Path

import pytest

from precis.errors import CorruptCheckpoint
from precis.rehearsal.checkpoint_files import (
    initial_state,
    load,
    save,
)
from precis.rehearsal.extractive.kind import SENTENCES
from tests.support.policies import trained_at

LAYOUT = SENTENCES.layout


def test_a_checkpoint_comes_back_to_the_bit(tmp_path: Path) -> None:
    trained = trained_at(3)
    first = save(tmp_path / "first", trained, LAYOUT) / "policy.json"
    loaded = load(tmp_path / "first", 3, LAYOUT)
    assert (loaded.step, loaded.policy.seed, loaded.adam.count) == (3, 7, 12)
    assert loaded.policy.weights.tobytes() == trained.policy.weights.tobytes()
    assert loaded.adam.square.tobytes() == trained.adam.square.tobytes()
    again = save(tmp_path / "second", loaded, LAYOUT) / "policy.json"
    assert again.read_bytes() == first.read_bytes()


@pytest.mark.parametrize(
    "content",
    ["{", "{}", '{"policy": "tool_calls"}', '{"policy": "sentences", "features_version": 0}'],
)
def test_a_damaged_checkpoint_is_refused_by_name(tmp_path: Path, content: str) -> None:
    (save(tmp_path, initial_state(LAYOUT, 1), LAYOUT) / "policy.json").write_text(content)
    with pytest.raises(CorruptCheckpoint, match=r"0000/policy\.json can't be used"):
        load(tmp_path, 0, LAYOUT)
