"""Bad weather between a client and an HTTP server: a proxy that spoils chosen exchanges.

with fault_proxy("http://127.0.0.1:5000") as proxy:
    proxy.spoil(Fault.LOST_ACK, method="PUT", path="latest.json")
    …                                    # the client talks to proxy.url
    assert proxy.counts[Fault.LOST_ACK] == 1
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Any

import httpx
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from tests.support.local_server import served

_NOT_FORWARDED = {"connection", "keep-alive", "transfer-encoding", "expect"}
_SLOW_PIECE = 256 * 1024
_SLOW_PAUSE_S = 0.05
_SLOW_DOWN = Response("<Error><Code>SlowDown</Code></Error>", 503, media_type="application/xml")


class Fault(StrEnum):
    """One way to spoil an exchange."""

    RESET = "reset"
    """The connection is reset before the server sees the request."""
    SLOW_DOWN = "slow_down"
    """503 SlowDown, as S3 answers to too many requests."""
    SLOW_READ = "slow_read"
    """The right answer, in small pieces with pauses."""
    LOST_ACK = "lost_ack"
    """The server carries the request out, but the connection is reset before its answer."""
    TORN_REQUEST = "torn_request"
    """The server gets half of the request's body."""
    TORN_ANSWER = "torn_answer"
    """The client gets half of the answer's body."""
    ALTERED_ANSWER = "altered_answer"
    """The client gets an answer whose body differs in one byte."""
    SILENCE = "silence"
    """No answer at all, until the client hangs up."""


@dataclass
class _Rule:
    fault: Fault
    method: str
    path: str
    times: int


class FaultProxy:
    """Forwards HTTP to a server on the loopback and spoils what it is told to.

    Attributes:
        counts: how often each fault was injected; `ok` counts the exchanges left alone.
    """

    url: str

    def __init__(self, upstream: str) -> None:
        self._upstream = httpx.URL(upstream)
        self.counts: Counter[str] = Counter()
        self.clear()

    def spoil(self, fault: Fault, method: str = "", path: str = "", times: int = 1) -> None:
        """Spoil the next requests of this method whose path contains `path`."""
        self._rules.append(_Rule(fault, method, path, times))

    def rain(self, share: float, seed: int, *faults: Fault) -> None:
        """Spoil a share of all requests, by faults drawn at random."""
        self._share = share
        self._draw = Random(seed)
        self._faults = faults

    def clear(self) -> None:
        """Spoil nothing any more."""
        self._rules: list[_Rule] = []
        self.rain(0.0, 0)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return
        request = Request(scope, receive)
        body = await request.body()
        path = scope["raw_path"] + b"?" + scope["query_string"]
        fault = self._pick(request.method, path.decode())
        self.counts[fault or "ok"] += 1
        connection = send.__self__.transport  # uvicorn's
        if fault is Fault.RESET:
            connection.abort()
            return
        if fault is Fault.SLOW_DOWN:
            await _SLOW_DOWN(scope, receive, send)
            return
        if fault is Fault.SILENCE:
            await receive()
            return
        is_torn = fault is Fault.TORN_REQUEST and body
        async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
            with suppress(ConnectionResetError):
                answer = await client.request(
                    request.method,
                    self._upstream.copy_with(raw_path=path),
                    content=_half(body) if is_torn else body,
                    headers=_forwarded(request.headers),
                )
        if is_torn or fault is Fault.LOST_ACK:
            connection.abort()
            return
        content = answer.content
        if fault is Fault.TORN_ANSWER:
            content = content[: len(content) // 2]
        elif fault is Fault.ALTERED_ANSWER and content and answer.is_success:
            middle = len(content) // 2
            content = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        # The server ends the connection of an app that sends less than it has announced.
        reply = Response(content, answer.status_code, _forwarded(answer.headers))
        if fault is Fault.SLOW_READ:
            reply = StreamingResponse(_slowly(content), reply.status_code, reply.headers)
        await reply(scope, receive, send)

    def _pick(self, method: str, path: str) -> Fault | None:
        for rule in self._rules:
            if rule.times and rule.method in ("", method) and rule.path in path:
                rule.times -= 1
                return rule.fault
        return self._draw.choice(self._faults) if self._draw.random() < self._share else None


@contextmanager
def fault_proxy(upstream: str) -> Iterator[FaultProxy]:
    """Forward to a server while the block lasts."""
    proxy = FaultProxy(upstream)
    with served(proxy) as proxy.url:
        yield proxy


async def _slowly(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), _SLOW_PIECE):
        await asyncio.sleep(_SLOW_PAUSE_S)
        yield body[start : start + _SLOW_PIECE]


async def _half(body: bytes) -> AsyncIterator[bytes]:
    yield body[: len(body) // 2]
    raise ConnectionResetError


def _forwarded(headers: Any) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _NOT_FORWARDED}
