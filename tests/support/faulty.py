"""A judge that fails on purpose: any ASGI app behind bad weather.

server = FaultyServer(completions_app(…), share=0.2, seed=7)
async with server as url:
    …                      # url ends in /v1
server.requests
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from enum import StrEnum
from random import Random

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from precis.llm.loop_server import LoopServer


class Fault(StrEnum):
    """One way to fail a request."""

    RETRY_AFTER = "retry_after"
    """429 that says when to come back."""
    UNAVAILABLE = "unavailable"
    DRIPPING = "dripping"
    """The right reply, a byte every `drip_s`: no read times out, but the call takes minutes."""
    BROKEN_OFF = "broken_off"
    """The connection ends in the middle of the body."""
    PROSE = "prose"
    """Praise instead of JSON."""


class FaultyServer:
    """Serves an app on a free port of the loopback; entering it gives the base URL.

    Faults are drawn from the request's own bytes, how often they were seen, and a seed. So a run
    meets the same faults whatever order its concurrent requests arrive in.

    Args:
        share: of the requests that meet one of the faults.
        drip_s: seconds between two bytes of a dripping reply.

    Attributes:
        requests: how many came in all.
    """

    def __init__(
        self,
        app: ASGIApp,
        share: float = 0.0,
        faults: Sequence[Fault] = tuple(Fault),
        *,
        seed: int = 1,
        drip_s: float = 0.001,
    ) -> None:
        self._app = app
        self._share = share
        self._faults = faults
        self._seed = seed
        self._drip_s = drip_s
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
        self._seen[body] += 1
        draw = Random(f"{self._seed}:{self._seen[body]}:{body!r}")

        async def replay() -> Message:
            return {"type": "http.request", "body": body}

        if draw.random() >= self._share:
            await self._app(scope, replay, send)
        else:
            reply = await self._spoiled(draw.choice(self._faults), scope, replay)
            await reply(scope, receive, send)

    async def _spoiled(self, fault: Fault, scope: Scope, receive: Receive) -> Response:
        """The app's reply as a fault makes it, or an error instead."""
        if fault is Fault.RETRY_AFTER:
            return JSONResponse({"error": "Too many."}, 429, {"retry-after": "0.05"})
        if fault is Fault.UNAVAILABLE:
            return JSONResponse({"error": "The model is overloaded."}, 503)
        status, body = 200, b""

        async def take(message: Message) -> None:
            nonlocal status, body
            status = message.get("status", status)
            body += message.get("body", b"")

        await self._app(scope, receive, take)
        announced = {"content-length": str(len(body)), "content-type": "application/json"}
        if fault is Fault.DRIPPING:
            return StreamingResponse(self._drip(body), status, announced)
        if fault is Fault.BROKEN_OFF:
            # The server ends the connection of an app that sends less than it has announced.
            return Response(body[: len(body) // 2], status, announced)
        completion = json.loads(body)
        for choice in completion.get("choices", ()):
            choice["message"]["content"] = "A fine summary: every question is answered."
        return JSONResponse(completion, status)

    async def _drip(self, body: bytes) -> AsyncIterator[bytes]:
        for at in range(len(body)):
            yield body[at : at + 1]
            await asyncio.sleep(self._drip_s)
