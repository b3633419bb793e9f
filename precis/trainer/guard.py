"""The guard before a trainer: the token, the limit of a request's body, and the clients' presence.

It is one layer around the whole app, so that it covers every path, and nothing of a request is read
or parsed before its token is checked. Only a served request counts as a sign of a client: a refused
one, or one for an unknown path, keeps no rented machine up.
"""

import hmac
import logging
import os
import signal
import threading
import time
from contextlib import suppress

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_BYTES_MAX = 256 * 1024 * 1024
"""The most bytes of a request: four times a thousand summaries with their log probabilities."""
_CLOSE = {"connection": "close"}
"""Of a refusal: the rest of the request is not read."""
_UNAUTHORIZED = JSONResponse(
    {"type": "Unauthorized", "message": "Missing or wrong bearer token."}, 401, _CLOSE
)
_TOO_LARGE = JSONResponse(
    {
        "type": "TrainerError",
        "message": f"The request has more than {BODY_BYTES_MAX} bytes: train on fewer groups.",
    },
    413,
    _CLOSE,
)
_STOP_S = 15.0
"""The time for an orderly stop."""
_log = logging.getLogger(__name__)


class _TooLarge(Exception):
    """A body is larger than its limit."""


class Guard:
    """An ASGI app that serves another one to clients with the token.

    It ends this process when no client has called for `client_lost_s` seconds and none waits for an
    answer; never if that is 0.
    """

    def __init__(self, app: ASGIApp, token: str, client_lost_s: float = 0) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()
        self._client_lost_s = client_lost_s
        self._heard = time.monotonic()
        self._answering = 0
        if client_lost_s:
            threading.Thread(target=self._watch, daemon=True).start()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        if scope["type"] == "websocket":
            return await send({"type": "websocket.close", "code": 1008})
        headers = Headers(scope=scope)
        if not hmac.compare_digest(headers.get("authorization", "").encode(), self._expected):
            return await _UNAUTHORIZED(scope, receive, send)
        length = headers.get("content-length", "")
        if (int(length) if length.isdecimal() and len(length) < 20 else 0) > BODY_BYTES_MAX:
            return await _TOO_LARGE(scope, receive, send)
        await self._serve(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        taken = 0
        waits = False

        async def receive_up_to_limit() -> Message:
            nonlocal taken, waits
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > BODY_BYTES_MAX:
                raise _TooLarge
            if message["type"] == "http.request":
                self._heard = time.monotonic()  # a step's trajectories may take long to arrive
                # Once its request is complete: a client that is lost before waits for nothing.
                if not message.get("more_body") and not waits:
                    waits = True
                    self._answering += 1
            return message

        async def send_and_hear(message: Message) -> None:
            if taken > BODY_BYTES_MAX:
                return  # the app's answer to an incomplete body
            if message["type"] == "http.response.start" and message["status"] < 400:
                self._heard = time.monotonic()
            await send(message)

        try:
            with suppress(_TooLarge):
                await self._app(scope, receive_up_to_limit, send_and_hear)
        finally:
            self._answering -= int(waits)
        if taken > BODY_BYTES_MAX:
            await _TOO_LARGE(scope, receive, send)

    def _watch(self) -> None:
        lost_s = self._client_lost_s
        while (left := self._heard + lost_s - time.monotonic()) > 0 or self._answering:
            time.sleep(max(left, 0.1))
        _log.warning("No client has called for %.0f s: the trainer ends.", lost_s)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_STOP_S)
        os._exit(0)  # the rest of this process would wait for a child that does not end
