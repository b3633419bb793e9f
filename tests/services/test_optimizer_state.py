"""Adam's state in a checkpoint, with a real torch: Debian's, on the CPU."""

import os
import subprocess
from pathlib import Path

import pytest

from precis.run.checkpoints import commit, restore
from precis.store import open_store
from tests.services.needs import leave_out
from tests.support.repository import ROOT

PYTHON = "/usr/bin/python3"
STEPS = 6
BROKEN_OFF = 3

pytestmark = pytest.mark.long


def train(folder: Path, first: int, last: int) -> list[str]:
    """The losses of some steps, exactly, from a process of their own."""
    folder.mkdir(exist_ok=True)
    done = subprocess.run(
        [PYTHON, str(ROOT / "tests/services/adam_run.py"), folder, str(first), str(last)],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_training_that_was_restarted_goes_on_as_one_that_was_not(tmp_path: Path) -> None:
    if not Path(PYTHON).exists() or subprocess.run([PYTHON, "-c", "import torch"]).returncode:
        leave_out("the Debian package python3-torch is not installed")
    whole = train(tmp_path / "whole", 0, STEPS)
    train(tmp_path / "first", 0, BROKEN_OFF)
    store = open_store(str(tmp_path / "store"))
    commit(store, "m", BROKEN_OFF, tmp_path / "first", config="0" * 64)
    restore(store, "m", BROKEN_OFF, tmp_path / "second")
    assert train(tmp_path / "second", BROKEN_OFF, STEPS) == whole[BROKEN_OFF:]
