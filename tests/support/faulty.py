"""A judge that fails on purpose: any ASGI app behind bad weather.

server = FaultyServer(completions_app(…), Faults.evenly(0.2, seed=7))
async with server as url:
    …                      # url ends in /v1
server.requests

Faults are drawn from the request's own bytes, how often they were seen, and a
seed. So a run meets the same faults whatever order its concurrent requests arrive in.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from precis.llm.loop_server import LoopServer


class Fault(StrEnum):
    """One way to fail a request."""

    RATE_LIMITED = "rate_limited"
    """429 that does not say when to come back."""
    RETRY_AFTER = "retry_after"
    """429 with a Retry-After header."""
    RETRY_DELAY = "retry_delay"
    """429 with Google's `retryDelay` in its body."""
    SERVER_ERROR = "server_error"
    BAD_GATEWAY = "bad_gateway"
    """502 with a proxy's HTML page."""
    UNAVAILABLE = "unavailable"
    SLOW = "slow"
    """The right reply, `slow_s` late."""
    DRIPPING = "dripping"
    """The right reply, a byte every `drip_s`: no read times out, but the call takes minutes."""
    BROKEN_OFF = "broken_off"
    """The connection ends in the middle of the body."""
    TRUNCATED = "truncated"
    """Half of the verdicts' JSON, with finish reason `length`."""
    CUT_BODY = "cut_body"
    """Half of the response's JSON, as from a proxy that gave up."""
    EXTRA_VERDICT = "extra_verdict"
    MISSING_VERDICT = "missing_verdict"
    PROSE = "prose"
    """Praise instead of JSON."""
    EMPTY_CHOICES = "empty_choices"
    REFUSAL = "refusal"


@dataclass(frozen=True)
class Faults:
    """The rates of faults: `Faults({Fault.PROSE: 0.05}, seed=3)` or `Faults.evenly(0.2)`.

    Attributes:
        rates: share of requests that meet each fault; together at most 1.
        retry_after_s: what a 429 that names a delay asks for.
        slow_s: how late a slow reply is.
        drip_s: seconds between two bytes of a dripping one.
    """

    rates: Mapping[Fault, float] = field(default_factory=dict)
    seed: int = 1
    retry_after_s: float = 1.0
    slow_s: float = 30.0
    drip_s: float = 0.5

    @classmethod
    def evenly(cls, share: float, **settings: Any) -> "Faults":
        """Every fault there is, together at the given share of requests."""
        return cls(dict.fromkeys(Fault, share / len(Fault)), **settings)

    def pick(self, draw: Random) -> Fault | None:
        """The fault of one request, or None for the most of them."""
        left = draw.random()
        for fault, rate in self.rates.items():
            left -= rate
            if left < 0:
                return fault
        return None


class FaultyServer:
    """Serves an app on a free port of the loopback; entering it gives the base URL.

    Args:
        app: answers the requests that fail not at all, or only on their way back.
        faults: what goes wrong, and how often; nothing by default.

    Attributes:
        requests: how many came in all.
    """

    def __init__(self, app: ASGIApp, faults: Faults | None = None) -> None:
        self._app = app
        self._faults = faults or Faults()
        self._seen: Counter[bytes] = Counter()
        self._server = LoopServer(self)
        self.requests = 0

    async def __aenter__(self) -> str:
        await self._server.start()
        return f"http://127.0.0.1:{self._server.port}/v1"

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return
        self.requests += 1
        body = await Request(scope, receive).body()
        fault = self._pick(body)

        async def replay() -> Message:
            return {"type": "http.request", "body": body}

        if fault is None:
            await self._app(scope, replay, send)
        elif refusal := _refusal_of(fault, self._faults.retry_after_s):
            await refusal(scope, receive, send)
        elif fault is Fault.SLOW:
            with suppress(TimeoutError):  # nothing comes any more, unless the client hangs up
                await asyncio.wait_for(receive(), self._faults.slow_s)
            await self._app(scope, replay, send)
        else:
            good = await self._reply_of(scope, replay)
            await self._spoil(fault, good)(scope, receive, send)

    def _pick(self, body: bytes) -> Fault | None:
        self._seen[body] += 1
        return self._faults.pick(Random(f"{self._faults.seed}:{self._seen[body]}:{body!r}"))

    async def _reply_of(self, scope: Scope, receive: Receive) -> Response:
        """The app's reply, which the client does not see."""
        status, body = 200, b""

        async def take(message: Message) -> None:
            nonlocal status, body
            status = message.get("status", status)
            body += message.get("body", b"")

        await self._app(scope, receive, take)
        return Response(body, status, media_type="application/json")

    def _spoil(self, fault: Fault, good: Response) -> Response:
        whole = bytes(good.body)
        announced = {"content-length": str(len(whole)), "content-type": "application/json"}
        if fault is Fault.DRIPPING:
            return StreamingResponse(self._drip(whole), good.status_code, announced)
        if fault is Fault.BROKEN_OFF:
            # The server ends the connection of an app that sends less than it has announced.
            return Response(whole[: len(whole) // 2], good.status_code, announced)
        if good.status_code == 200:
            good.body = _spoiled(fault, whole)
            good.headers["content-length"] = str(len(good.body))
        return good

    async def _drip(self, body: bytes) -> AsyncIterator[bytes]:
        for at in range(len(body)):
            yield body[at : at + 1]
            await asyncio.sleep(self._faults.drip_s)


def _refusal_of(fault: Fault, retry_after_s: float) -> Response | None:
    """The error that a fault answers with, or None for a fault that spoils a good reply."""
    match fault:
        case Fault.RATE_LIMITED:
            return _error(429, "Rate limit exceeded.")
        case Fault.RETRY_AFTER:
            reply = _error(429, "Rate limit exceeded.")
            reply.headers["retry-after"] = f"{retry_after_s:g}"
            return reply
        case Fault.RETRY_DELAY:
            info = "type.googleapis.com/google.rpc.RetryInfo"
            details = [{"@type": info, "retryDelay": f"{retry_after_s:g}s"}]
            return _error(429, "Quota exceeded.", status="RESOURCE_EXHAUSTED", details=details)
        case Fault.SERVER_ERROR:
            return _error(500, "Internal error.")
        case Fault.BAD_GATEWAY:
            return HTMLResponse("<html><body><h1>502 Bad Gateway</h1></body></html>", 502)
        case Fault.UNAVAILABLE:
            return _error(503, "The model is overloaded.")
    return None


def _spoiled(fault: Fault, body: bytes) -> bytes:
    """A good completion's body as a fault makes it; unchanged by faults of the transport."""
    if fault is Fault.CUT_BODY:
        return body[: len(body) // 2]
    completion = json.loads(body)
    if fault is Fault.EMPTY_CHOICES:
        return json.dumps(completion | {"choices": []}).encode()
    for choice in completion["choices"]:
        message = choice["message"]
        if fault is Fault.REFUSAL:
            message |= {"content": None, "refusal": "I can't help with that."}
        elif fault is Fault.TRUNCATED:
            choice["finish_reason"] = "length"
            message["content"] = message["content"][: len(message["content"]) // 2]
        elif fault is Fault.PROSE:
            message["content"] = "A fine summary: every question is answered, and all is true."
        elif fault in (Fault.EXTRA_VERDICT, Fault.MISSING_VERDICT):
            message["content"] = _miscounted(message["content"], fault)
    return json.dumps(completion).encode()


def _miscounted(content: str, fault: Fault) -> str:
    """One entry more or fewer in the first list of a JSON object, or one key where it has none."""
    reply = json.loads(content)
    entries = next((value for value in reply.values() if isinstance(value, list) and value), None)
    if entries is not None and fault is Fault.EXTRA_VERDICT:
        entries.append(entries[-1])
    elif entries is not None:
        entries.pop()
    elif fault is Fault.EXTRA_VERDICT:
        reply["extra"] = True
    else:
        reply.popitem()
    return json.dumps(reply)


def _error(code: int, message: str, **more: object) -> Response:
    return JSONResponse({"error": {"code": code, "message": message, **more}}, code)
