"""The tunnel, over a stand-in for ssh that forwards as `ssh -N -L` does."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from precis.cluster import tunnel as tunnels
from precis.cluster.site import TrainerAddress
from precis.cluster.skypilot import answers
from precis.cluster.tunnel import Tunnel
from tests.services.patience import until

_SSH = """
import asyncio, sys

def value(option):
    return sys.argv[sys.argv.index(option) + 1]

near_host, near, far_host, far = value("-L").split(":")
open(sys.argv[-1], "a").write("connected\\n")

async def pipe(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()

async def forward(reader, writer):
    there, back = await asyncio.open_connection(far_host, int(far))
    await asyncio.gather(pipe(reader, back), pipe(there, writer))

async def main():
    server = await asyncio.start_server(forward, near_host, int(near))
    await asyncio.sleep(float(value("--for")))
    sys.exit("The machine went away.")

asyncio.run(main())
"""


async def test_requests_reach_the_far_end_and_a_dropped_tunnel_comes_back(tmp_path: Path) -> None:
    said: list[str] = []
    async with far_end() as port:
        assert not await answers(TrainerAddress(f"http://127.0.0.1:{port}", "wrong"))
        tunnel = Tunnel(ssh(tmp_path, lasts_s=0.6), port, said.append)
        tunnel.open()
        address = TrainerAddress(tunnel.url, "right")
        connected = tmp_path / "cluster"
        try:
            await until_answered(address)
            await until(lambda: len(connected.read_text().splitlines()) >= 2, "a second tunnel")
            await until_answered(address)
        finally:
            await tunnel.close()
            await tunnel.close()
        assert not await answers(address), "a closed tunnel forwards"
    assert any("The machine went away" in line for line in said)


async def test_a_tunnel_that_has_lasted_is_made_again_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client of a trainer gives up after some eight seconds."""
    monkeypatch.setattr(tunnels, "_STEADY_S", 0.2)
    monkeypatch.setattr(tunnels, "_PAUSES_S", (0.01, 600))
    said: list[str] = []
    async with far_end() as port:
        tunnel = Tunnel(ssh(tmp_path, lasts_s=0.6), port, said.append)
        tunnel.open()
        connected = tmp_path / "cluster"
        try:
            await until(lambda: count_lines(connected) >= 3, "a third tunnel")
        finally:
            await tunnel.close()
    assert len(said) >= 2, "a drop after a long time is told of"


def count_lines(file: Path) -> int:
    return len(file.read_text().splitlines()) if file.exists() else 0


def ssh(folder: Path, lasts_s: float) -> list[str]:
    program = folder / "ssh.py"
    program.write_text(f"#!{sys.executable}\n{_SSH}")
    program.chmod(0o755)
    return [str(program), "--for", str(lasts_s), str(folder / "cluster")]


@asynccontextmanager
async def far_end() -> AsyncIterator[int]:
    """A server that knows one token."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        status = b"200 OK" if b"Bearer right" in request else b"401 Unauthorized"
        writer.write(b"HTTP/1.1 " + status + b"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


async def until_answered(address: TrainerAddress) -> None:
    async def is_up() -> bool:
        try:
            return await answers(address)
        except httpx.HTTPError:
            return False

    await until(is_up, "an answer through the tunnel")
