"""Bad weather between a client and an HTTP server: a proxy that spoils chosen exchanges.

with FaultProxy("http://127.0.0.1:5000") as proxy:
    proxy.spoil(Fault.LOST_ACK, method="PUT", path="latest.json")
    …                                    # the client talks to proxy.url
    assert proxy.counts[Fault.LOST_ACK] == 1
"""

import http.client
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from typing import Any, Self
from urllib.parse import urlsplit

_NOT_FORWARDED = {"connection", "keep-alive", "transfer-encoding", "expect"}
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_SLOW_PIECE = 256 * 1024
_SLOW_PAUSE_S = 0.02


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

    def takes(self, method: str, path: str) -> bool:
        return self.times > 0 and self.method in ("", method) and self.path in path


@dataclass(frozen=True)
class _Answer:
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


_SLOW_DOWN = _Answer(
    503,
    (("Content-Type", "application/xml"),),
    b"<?xml version='1.0'?><Error><Code>SlowDown</Code><Message>SlowDown</Message></Error>",
)


class FaultProxy:
    """Forwards HTTP to a server on the loopback and spoils what it is told to.

    Attributes:
        counts: how often each fault was injected; `ok` counts the exchanges left alone.
    """

    def __init__(self, upstream: str) -> None:
        self.upstream = urlsplit(upstream).netloc
        self.counts: Counter[str] = Counter()
        self._rules: list[_Rule] = []
        self._weather: tuple[Random, float, tuple[Fault, ...]] | None = None
        self._lock = threading.Lock()

    def spoil(self, fault: Fault, method: str = "", path: str = "", times: int = 1) -> None:
        """Spoil the next requests of this method whose path contains `path`."""
        self._rules.append(_Rule(fault, method, path, times))

    def rain(self, share: float, seed: int, *faults: Fault) -> None:
        """Spoil a share of all requests, by faults drawn at random."""
        self._weather = (Random(seed), share, faults or tuple(Fault))

    def clear(self) -> None:
        """Spoil nothing any more."""
        self._rules, self._weather = [], None

    def __enter__(self) -> Self:
        self._server = _Server(self)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def exchange(self, client: "_Handler", body: bytes) -> None:
        """Answer a client's request, well or badly."""
        fault = self._pick(client.command, client.path)
        match fault:
            case Fault.RESET:
                client.reset()
            case Fault.SLOW_DOWN:
                client.send(_SLOW_DOWN)
            case Fault.SILENCE:
                client.wait_for_hang_up()
            case Fault.TORN_REQUEST if body:
                self._forward_half(client, body)
                client.reset()
            case _:
                self._answer(client, self._forward(client, body), fault)

    def _pick(self, method: str, path: str) -> Fault | None:
        with self._lock:
            rule = next((rule for rule in self._rules if rule.takes(method, path)), None)
            fault = rule.fault if rule else self._drawn()
            if rule:
                rule.times -= 1
            self.counts[fault or "ok"] += 1
        return fault

    def _drawn(self) -> Fault | None:
        if self._weather is None:
            return None
        draw, share, faults = self._weather
        return draw.choice(faults) if draw.random() < share else None

    def _answer(self, client: "_Handler", answer: _Answer, fault: Fault | None) -> None:
        if fault is Fault.LOST_ACK:
            client.reset()
        elif fault is Fault.SLOW_READ:
            client.send(answer, _slowly(answer.body))
        elif fault is Fault.TORN_ANSWER and answer.body:
            client.send(answer, iter([answer.body[: len(answer.body) // 2]]))
            client.reset()
        elif fault is Fault.ALTERED_ANSWER and answer.body and answer.status < 300:
            middle = len(answer.body) // 2
            flipped = bytes([answer.body[middle] ^ 1])
            pieces = [answer.body[:middle], flipped, answer.body[middle + 1 :]]
            client.send(answer, iter(pieces))
        else:
            client.send(answer)

    def _forward(self, client: "_Handler", body: bytes) -> _Answer:
        server = http.client.HTTPConnection(self.upstream, timeout=60)
        try:
            server.request(client.command, client.path, body, _forwarded(client.headers.items()))
            answer = server.getresponse()
            kept = tuple(_forwarded(answer.getheaders()).items())
            return _Answer(answer.status, kept, answer.read())
        finally:
            server.close()

    def _forward_half(self, client: "_Handler", body: bytes) -> None:
        server = http.client.HTTPConnection(self.upstream, timeout=60)
        try:
            server.putrequest(client.command, client.path, skip_host=True)
            for name, value in _forwarded(client.headers.items()).items():
                server.putheader(name, value)
            server.endheaders(body[: len(body) // 2])
        finally:
            server.close()


class _Server(ThreadingHTTPServer):
    request_queue_size = 128
    daemon_threads = True

    def __init__(self, proxy: FaultProxy) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.proxy = proxy

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up are part of the weather."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def _take(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.proxy.exchange(self, body)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _take

    def log_message(self, *_: object) -> None:
        """Quiet: the proxy counts instead."""

    def send(self, answer: _Answer, pieces: Iterator[bytes] | None = None) -> None:
        self.send_response_only(answer.status)
        lengths = [value for name, value in answer.headers if name.lower() == "content-length"]
        for name, value in answer.headers:
            if name.lower() != "content-length":
                self.send_header(name, value)
        is_head = self.command == "HEAD" and lengths
        self.send_header("Content-Length", lengths[0] if is_head else str(len(answer.body)))
        self.end_headers()
        for piece in pieces if pieces is not None else iter([answer.body]):
            self.wfile.write(piece)

    def reset(self) -> None:
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        # Both file objects share the socket, which is closed with the last of them.
        self.close_connection = True
        self.connection.close()

    def wait_for_hang_up(self) -> None:
        with suppress(OSError):
            self.rfile.read(1)
        self.close_connection = True


def _forwarded(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    return {name: value for name, value in headers if name.lower() not in _NOT_FORWARDED}


def _slowly(body: bytes) -> Iterator[bytes]:
    for start in range(0, len(body), _SLOW_PIECE):
        time.sleep(_SLOW_PAUSE_S)
        yield body[start : start + _SLOW_PIECE]
