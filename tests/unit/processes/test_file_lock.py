"""A lock on a file: who waits in vain learns who holds it."""

import logging
import os
import socket
from pathlib import Path

import pytest

from precis.errors import LockHeld
from precis.processes.file_lock import file_lock
from tests.support.stopped import HOLD_LOCK, stopped_process


def test_a_lock_that_a_stopped_process_holds_is_not_waited_for_for_ever(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("precis.processes.file_lock._WARN_AFTER_S", 0.05)
    path = tmp_path / "lock"
    with (
        stopped_process(HOLD_LOCK, str(path)) as holder,
        pytest.raises(LockHeld) as caught,
        file_lock(path, 0.5),
    ):
        raise AssertionError
    said = str(caught.value)
    assert f"held by process {holder.pid} on {socket.gethostname()} since 20" in said
    assert "kill -CONT" in said
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert f"held by process {holder.pid} " in caplog.text


def test_the_lock_of_a_process_that_is_gone_is_free(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with stopped_process(HOLD_LOCK, str(path)) as holder:
        holder.kill()
        with file_lock(path, 30):
            assert f"process {os.getpid()} on " in path.read_text()
    assert path.read_text() == ""


def test_what_a_lock_file_says_is_not_printed_unless_it_is_a_holder(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    said = "is held by another process, and"
    with stopped_process(HOLD_LOCK, str(path)):
        for content in ("", "{}", "process \x1b[2J"):
            path.write_text(content)
            with pytest.raises(LockHeld, match=said), file_lock(path, 0):
                raise AssertionError
