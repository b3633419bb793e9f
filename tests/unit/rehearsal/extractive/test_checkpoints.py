from pathlib import Path

import pytest

from precis.errors import CorruptCheckpoint
from precis.rehearsal.checkpoint_files import (
    initial_state,
    load,
    save,
)
from precis.rehearsal.extractive.kind import SENTENCES

LAYOUT = SENTENCES.layout


@pytest.mark.parametrize(
    "content",
    ["{", "{}", '{"policy": "tool_calls"}', '{"policy": "sentences", "features_version": 0}'],
)
def test_a_damaged_checkpoint_is_refused_by_name(tmp_path: Path, content: str) -> None:
    (save(tmp_path, initial_state(LAYOUT, 1), LAYOUT) / "policy.json").write_text(content)
    with pytest.raises(CorruptCheckpoint, match=r"0000/policy\.json can't be used"):
        load(tmp_path, 0, LAYOUT)
