"""A judge that fails on purpose: any ASGI app behind bad weather.

server = FaultyServer(completions_app(…), Faults.evenly(0.2, seed=7))
async with server as url:
    …                      # url ends in /v1
server.requests
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from random import Random

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from precis.llm.loop_server import LoopServer
from tests.support.faults import Fault, Faults, refusal_of, spoiled


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
        elif refusal := refusal_of(fault, self._faults.retry_after_s):
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
            good.body = spoiled(fault, whole)
            good.headers["content-length"] = str(len(good.body))
        return good

    async def _drip(self, body: bytes) -> AsyncIterator[bytes]:
        for at in range(len(body)):
            yield body[at : at + 1]
            await asyncio.sleep(self._faults.drip_s)
