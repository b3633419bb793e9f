"""A server that answers every request with bytes of its own choice, and counts what it sent."""

import asyncio
import gzip
import io
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache

from starlette.responses import JSONResponse

from tests.support.faulty import Fault, FaultyServer

MIB = 2**20


@dataclass
class Hostile:
    """Attributes:
    answer: the pieces of an answer to whoever sends this key.
    sent: bytes of answers that it got rid of.
    """

    answer: Callable[[str], Iterator[bytes]]
    url: str = ""
    sent: int = 0
    keys: list[str] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            named = dict(line.split(": ", 1) for line in head.split("\r\n")[1:-2])
            headers = {name.lower(): value for name, value in named.items()}
            await reader.readexactly(int(headers.get("content-length", 0)))
            self.keys.append(headers.get("authorization", "").removeprefix("Bearer "))
            for piece in self.answer(self.keys[-1]):
                writer.write(piece)
                await writer.drain()
                self.sent += len(piece)
        writer.close()


@asynccontextmanager
async def hostile(answer: Callable[[str], Iterator[bytes]]) -> AsyncIterator[Hostile]:
    """Listens on the loopback while the block lasts; `answer` is given the key that was sent."""
    one = Hostile(answer)
    server = await asyncio.start_server(one.serve, "127.0.0.1", 0)
    one.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield one
    finally:
        server.close()


def endless(_: str) -> Iterator[bytes]:
    """A reply of up to 1 GiB, as quick as it is taken."""
    yield b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{"
    for _mib in range(1024):
        yield b" " * MIB


@cache
def _bomb() -> bytes:
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=1) as file:
        for _ in range(256):
            file.write(bytes(MIB))
    return packed.getvalue()


def bomb(_: str) -> Iterator[bytes]:
    """256 MiB in about one of gzip."""
    packed = _bomb()
    yield b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n"
    yield f"Content-Length: {len(packed)}\r\n\r\n".encode()
    yield packed


@asynccontextmanager
async def dripping() -> AsyncIterator[str]:
    """A server whose answer takes hours, though no wait for a byte of it is long; its address."""
    app = JSONResponse("x" * MIB)
    async with FaultyServer(app, 1.0, [Fault.DRIPPING], drip_s=0.05) as url:
        yield url


def quoting(status: int, body: Callable[[str], str]) -> Callable[[str], Iterator[bytes]]:
    """Answers with a body made of the key."""

    def answer(key: str) -> Iterator[bytes]:
        content = body(key).encode()
        yield f"HTTP/1.1 {status} X\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content

    return answer


def quoting_in_the_status_line(key: str) -> Iterator[bytes]:
    yield f"HTTP/1.1 {key} {key}\r\n\r\n".encode()
