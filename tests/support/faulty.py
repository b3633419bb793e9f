"""A judge that fails on purpose, for tests and benchmarks: any ASGI app behind bad weather.

Resets and dripping replies need the socket itself, so this is a small HTTP/1.1 server of its own
rather than a middleware.

    server = FaultyServer(completions_app(…), faults=Faults.evenly(0.2, seed=7))
    async with server as url:
        …                      # url ends in /v1
    server.counts["reset"], server.peak(window_s=60)
"""

import asyncio
import contextlib
import socket
import struct
import time
from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from random import Random
from typing import Any

from starlette.types import ASGIApp, Message

from tests.support.faults import Fault, Faults, Latency, Reply, refused_with, spoiled

OVER_IN_FLIGHT = "over_in_flight"
"""Counts the requests answered with 429 because too many were under way at once."""

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


@dataclass(frozen=True)
class _Request:
    method: str
    path: str
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


class FaultyServer:
    """Serves an app on a free port of the loopback; entering it gives the base URL.

    Args:
        app: answers the requests that fail not at all, or only on their way back.
        faults: what goes wrong, and how often; nothing by default.
        latency: how long a reply takes; none by default.
        in_flight_max: requests at a time beyond which the answer is 429; None for no limit.

    Attributes:
        counts: how often each fault was injected, by its name; `ok` for none.
        arrivals: when each request came, in seconds of the monotonic clock.
    """

    def __init__(
        self,
        app: ASGIApp,
        faults: Faults | None = None,
        latency: Latency | None = None,
        in_flight_max: int | None = None,
    ) -> None:
        self._app, self._faults = app, faults or Faults()
        self._latency, self._in_flight_max = latency, in_flight_max
        self._seen: Counter[bytes] = Counter()
        self._in_flight = 0
        self._connections: set[asyncio.Task[Any]] = set()
        self.counts: Counter[str] = Counter()
        self.arrivals = array("d")

    @property
    def requests(self) -> int:
        """How many requests came in all."""
        return len(self.arrivals)

    def peak(self, window_s: float) -> int:
        """The most requests that came in any window of so many seconds."""
        most = start = 0
        for end, arrival in enumerate(self.arrivals):
            while self.arrivals[start] <= arrival - window_s:
                start += 1
            most = max(most, end - start + 1)
        return most

    async def __aenter__(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=1024)
        port = self._server.sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}/v1"

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        try:
            # A client that hangs up, early or late, ends its connection and nothing else.
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                while True:
                    await self._answer(await _read(reader), writer)
        except asyncio.CancelledError:
            # Only `__aexit__` cancels; a stream's own callback would log it as an error.
            pass
        finally:
            writer.close()

    async def _answer(self, request: _Request, writer: asyncio.StreamWriter) -> None:
        self.arrivals.append(time.monotonic())
        if self._in_flight_max is not None and self._in_flight >= self._in_flight_max:
            self.counts[OVER_IN_FLIGHT] += 1
            full = refused_with(Fault.RATE_LIMITED, 0)
            assert full is not None
            await _write(writer, full)
            return
        self._in_flight += 1
        try:
            await self._answer_with_luck(request, writer)
        finally:
            self._in_flight -= 1

    async def _answer_with_luck(self, request: _Request, writer: asyncio.StreamWriter) -> None:
        draw = self._draw(request)
        fault = self._faults.pick(draw)
        self.counts[fault or "ok"] += 1
        if self._latency is not None:
            await asyncio.sleep(self._latency.sample(draw))
        if fault is None:
            await _write(writer, await self._call(request))
        elif error := refused_with(fault, self._faults.retry_after_s):
            await _write(writer, error)
        else:
            await self._spoil(fault, await self._call(request), writer)

    async def _spoil(self, fault: Fault, good: Reply, writer: asyncio.StreamWriter) -> None:
        if fault is Fault.SLOW:
            await asyncio.sleep(self._faults.slow_s)
            await _write(writer, good)
        elif fault is Fault.DRIPPING:
            await _drip(writer, good, self._faults.drip_s)
        elif fault is Fault.RESET:
            await _reset(writer, good)
        else:
            body = spoiled(fault, good.body) if good.status == 200 else good.body
            await _write(writer, Reply(good.status, body, good.headers))

    def _draw(self, request: _Request) -> Random:
        digest = blake2b(request.body, digest_size=12).digest()
        self._seen[digest] += 1
        return Random(f"{self._faults.seed}:{digest.hex()}:{self._seen[digest]}")

    async def _call(self, request: _Request) -> Reply:
        """The app's reply to a request, called in this process."""
        sent: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": request.body, "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        await self._app(_scope(request), receive, send)
        headers = ((name.decode(), value.decode()) for name, value in sent[0].get("headers", ()))
        body = b"".join(message.get("body", b"") for message in sent[1:])
        kept = tuple(pair for pair in headers if pair[0] != "content-length")
        return Reply(sent[0]["status"], body, kept)


def _scope(request: _Request) -> dict[str, Any]:
    path, _, query = request.path.partition("?")
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": list(request.headers),
        "client": ("127.0.0.1", 0),
        "server": ("127.0.0.1", 80),
    }


async def _read(reader: asyncio.StreamReader) -> _Request:
    """One request with a content length, which all JSON clients send."""
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.rstrip(b"\r\n").split(b"\r\n")
    method, path, _ = first.decode().split(" ", 2)
    pairs = (line.partition(b":") for line in lines)
    headers = tuple((name.strip().lower(), value.strip()) for name, _, value in pairs)
    length = int(dict(headers).get(b"content-length", b"0"))
    return _Request(method, path, headers, await reader.readexactly(length))


async def _write(writer: asyncio.StreamWriter, reply: Reply) -> None:
    writer.write(_head(reply) + reply.body)
    await writer.drain()


async def _drip(writer: asyncio.StreamWriter, reply: Reply, drip_s: float) -> None:
    writer.write(_head(reply))
    for byte in _bytes(reply.body):
        writer.write(byte)
        await writer.drain()
        await asyncio.sleep(drip_s)


async def _reset(writer: asyncio.StreamWriter, reply: Reply) -> None:
    writer.write(_head(reply) + reply.body[: len(reply.body) // 2])
    await writer.drain()
    connection: socket.socket = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    writer.transport.abort()
    raise ConnectionResetError


def _bytes(body: bytes) -> Iterable[bytes]:
    return (body[index : index + 1] for index in range(len(body)))


def _head(reply: Reply) -> bytes:
    lines = [
        f"HTTP/1.1 {reply.status} -",
        *(f"{name}: {value}" for name, value in reply.headers),
        f"content-length: {len(reply.body)}",
    ]
    return "\r\n".join([*lines, "", ""]).encode()
