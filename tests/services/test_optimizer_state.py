"""Adam's state in a checkpoint, with a real torch: Debian's, on the CPU."""

import os
import subprocess
from pathlib import Path

import pytest

from precis.errors import CorruptCheckpoint
from precis.run.checkpoints import commit, restore
from precis.store import open_store
from tests.services.needs import leave_out

ROOT = Path(__file__).parents[2]
PYTHON = "/usr/bin/python3"
STEPS = 6
BROKEN_OFF = 3

pytestmark = pytest.mark.long


@pytest.fixture(scope="module", autouse=True)
def debian_torch() -> None:
    command = [PYTHON, "-c", "import torch"]
    if not Path(PYTHON).exists() or subprocess.run(command, capture_output=True).returncode:
        leave_out("the Debian package python3-torch is not installed")


def train(folder: Path, first: int, last: int, state: str = "with-state") -> list[str]:
    """The losses of some steps, exactly, from a process of their own."""
    folder.mkdir(exist_ok=True)
    done = subprocess.run(
        [PYTHON, str(ROOT / "tests/services/adam_run.py"), folder, str(first), str(last), state],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_training_that_was_restarted_goes_on_as_one_that_was_not(tmp_path: Path) -> None:
    whole = train(tmp_path / "whole", 0, STEPS)
    train(tmp_path / "first", 0, BROKEN_OFF)
    store = open_store(str(tmp_path / "store"))
    commit(store, "m", BROKEN_OFF, tmp_path / "first", config="0" * 64)
    restore(store, "m", BROKEN_OFF, tmp_path / "second")
    assert train(tmp_path / "second", BROKEN_OFF, STEPS) == whole[BROKEN_OFF:]


def test_without_its_state_it_goes_on_otherwise(tmp_path: Path) -> None:
    whole = train(tmp_path / "whole", 0, STEPS)
    train(tmp_path / "cut", 0, BROKEN_OFF)
    cut = train(tmp_path / "cut", BROKEN_OFF, STEPS, "without-state")
    assert cut[0] == whole[BROKEN_OFF], "the first loss is before any update"
    assert cut[1:] != whole[BROKEN_OFF + 1 :]


def test_a_state_that_was_altered_is_not_restored(tmp_path: Path) -> None:
    train(tmp_path / "run", 0, BROKEN_OFF)
    store = open_store(str(tmp_path / "store"))
    commit(store, "m", BROKEN_OFF, tmp_path / "run", config="0" * 64)
    (stored,) = (tmp_path / "store").rglob("optimizer.pt")
    content = bytearray(stored.read_bytes())
    content[len(content) // 2] ^= 1
    stored.write_bytes(content)
    with pytest.raises(CorruptCheckpoint, match=r"optimizer\.pt"):
        restore(store, "m", BROKEN_OFF, tmp_path / "restored")
