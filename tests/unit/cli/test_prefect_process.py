"""Starting and stopping a Prefect server of our own, one at a time."""

from pathlib import Path

import pytest

from cli import prefect_process
from precis.errors import LockHeld
from tests.support.stopped import stopped_process

HOLD = """
import os, signal
from cli import prefect_process

with prefect_process._alone():
    os.kill(os.getpid(), signal.SIGSTOP)
"""


def test_a_stop_does_not_wait_for_ever_for_a_process_that_is_stopped_while_it_starts_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRECIS_HOME", str(tmp_path))
    monkeypatch.setattr(prefect_process, "_LOCK_PATIENCE_S", 0.2)
    (tmp_path / "prefect").mkdir()
    with (
        stopped_process(HOLD) as holder,
        pytest.raises(LockHeld, match=f"prefect/lock is held by process {holder.pid} on "),
    ):
        prefect_process.stop()
