"""The port of a server that is yet to start."""

import socket

import pytest

from precis.processes import child
from precis.processes.child import free_port


def test_it_is_free_and_none_that_the_kernel_gives_away(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as given:
        taken = given.getsockname()[1]
        assert free_port() in child._PORTS
        monkeypatch.setattr(child, "_PORTS", [taken] * 20)
        assert free_port() != taken
