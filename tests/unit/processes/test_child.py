"""The start of a child, and the port of a server that is yet to start."""

import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import psutil
import pytest

from precis.processes import child
from precis.processes.child import child_service, free_port
from precis.processes.supervisor import descendants, end_descendants, running


def test_it_is_free_and_none_that_the_kernel_gives_away(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as given:
        taken = given.getsockname()[1]
        assert free_port() in child._PORTS
        monkeypatch.setattr(child, "_PORTS", [taken] * 20)
        assert free_port() != taken


async def test_a_child_that_cannot_be_started_leaves_no_descriptor_open(tmp_path: Path) -> None:
    """A start is tried again and again."""
    before = set(os.listdir("/proc/self/fd"))
    with pytest.raises(FileNotFoundError):
        async with child_service("m", [], tmp_path / "log", str(tmp_path / "no-python")):
            pass
    assert set(os.listdir("/proc/self/fd")) <= before


def test_descendants_are_ended_where_others_processes_are_hidden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As /proc with hidepid=1 hides them."""

    def read(path: str) -> Any:
        if path.startswith("/proc/1/"):
            raise PermissionError(path)
        return open(path, "rb")

    monkeypatch.setattr(psutil._pslinux, "open_binary", read)
    with subprocess.Popen(["sh", "-c", "sleep 60 & wait"], stdout=subprocess.PIPE) as parent:
        while not (children := descendants(parent.pid)):
            pass
        end_descendants(parent.pid)
    assert not running(children)
