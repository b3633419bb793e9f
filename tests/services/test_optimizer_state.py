"""Adam's state in a checkpoint, with a real torch: Debian's, on the CPU."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

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


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The losses of a training that was not broken off."""
    return train(tmp_path_factory.mktemp("whole"), 0, STEPS)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a training has left that was broken off; nothing is to be written there."""
    folder = tmp_path_factory.mktemp("first")
    train(folder, 0, BROKEN_OFF)
    return folder


def test_a_training_that_was_restarted_goes_on_as_one_that_was_not(
    whole: list[str], first: Path, tmp_path: Path
) -> None:
    store = open_store(str(tmp_path / "store"))
    commit(store, "m", BROKEN_OFF, first, config="0" * 64)
    restore(store, "m", BROKEN_OFF, tmp_path / "second")
    assert train(tmp_path / "second", BROKEN_OFF, STEPS) == whole[BROKEN_OFF:]


def test_without_its_state_it_goes_on_otherwise(
    whole: list[str], first: Path, tmp_path: Path
) -> None:
    shutil.copytree(first, tmp_path / "cut")
    cut = train(tmp_path / "cut", BROKEN_OFF, STEPS, "without-state")
    assert cut[0] == whole[BROKEN_OFF], "the first loss is before any update"
    assert cut[1:] != whole[BROKEN_OFF + 1 :]
