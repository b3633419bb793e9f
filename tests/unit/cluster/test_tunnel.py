"""The tunnel, over a stand-in for ssh at whose near end the trainer answers by itself."""

import asyncio
import sys
from pathlib import Path

import pytest

from precis.cluster import tunnel as tunnels
from precis.cluster.site import TrainerAddress, answers
from precis.cluster.tunnel import Tunnel
from tests.services.patience import until

_SSH = """
import http.server, sys, threading

def value(option):
    return sys.argv[sys.argv.index(option) + 1]

class Trainer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        is_ours = self.headers["authorization"] == "Bearer right"
        self.send_response(200 if is_ours else 401)
        self.end_headers()

    def log_message(self, *_): ...

near_host, near, far = value("-L").split(":", 2)
open(sys.argv[-1], "a").write(far + "\\n")
server = http.server.ThreadingHTTPServer((near_host, int(near)), Trainer)
threading.Timer(float(value("--for")), server.shutdown).start()
server.serve_forever()
sys.exit("The machine went away.")
"""


def ssh(folder: Path) -> list[str]:
    """The command of an ssh whose connections last for a while."""
    program = folder / "ssh.py"
    program.write_text(f"#!{sys.executable}\n{_SSH}")
    program.chmod(0o755)
    return [str(program), "--for", "0.6", str(folder / "cluster")]


def connections(folder: Path) -> list[str]:
    """The far end of each connection so far."""
    file = folder / "cluster"
    return file.read_text().splitlines() if file.exists() else []


async def test_a_dropped_tunnel_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client of a trainer gives up after some eight seconds."""
    monkeypatch.setattr(tunnels, "_STEADY_S", 0.2)
    monkeypatch.setattr(tunnels, "_PAUSES_S", (0.01, 600))
    said: list[str] = []
    tunnel = Tunnel(ssh(tmp_path), 23456, said.append)
    address = TrainerAddress(tunnel.url, "right")
    try:
        await until(lambda: answers(address), "an answer through the tunnel")
        assert not await answers(TrainerAddress(tunnel.url, "wrong"))
        await until(lambda: len(connections(tmp_path)) >= 3, "a third tunnel")
        await until(lambda: answers(address), "an answer through the third tunnel")
    finally:
        await tunnel.close()
        await tunnel.close()
    assert not await answers(address), "a closed tunnel forwards"
    assert set(connections(tmp_path)) == {"127.0.0.1:23456"}
    drops = [line for line in said if "The machine went away" in line]
    assert len(drops) >= 2, "a drop after a long time is told of"


async def test_a_tunnel_whose_ssh_is_missing_tries_again_and_closes(tmp_path: Path) -> None:
    """Its error at closing would keep the rented machine up."""
    command = ssh(tmp_path)
    program = Path(command[0])
    hidden = program.rename(tmp_path / "hidden")
    said: list[str] = []
    tunnel = Tunnel(command, 23456, said.append)
    try:
        await until(lambda: any("could not be started: No such file" in one for one in said), "why")
        hidden.rename(program)
        await until(lambda: connections(tmp_path), "a tunnel once ssh is there")
    finally:
        await tunnel.close()


async def test_a_run_that_is_cancelled_while_its_tunnel_closes_is_cancelled(tmp_path: Path) -> None:
    tunnel = Tunnel(ssh(tmp_path), 23456, print)
    await until(lambda: connections(tmp_path), "a tunnel")
    closing = asyncio.create_task(tunnel.close())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    await tunnel.close()
