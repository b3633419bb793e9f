"""What stands before a trainer: the token, the limit of a request's body, and who counts as there.

It is one layer around the whole app, so that no path is left out, and nothing of a request is read
or parsed before its token is seen to be right. Only a request that was served says that a client
is there: one that is refused, or asks for what does not exist, keeps no rented machine up.
"""

import hmac
from contextlib import suppress

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from precis.trainer.presence import Presence

BODY_BYTES_MAX = 256 * 1024 * 1024
"""The most that a request may carry: a thousand summaries with their log probabilities take a
quarter of it."""
_CLOSE = {"connection": "close"}
"""The rest of a body that is refused is not waited for."""
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


class _TooLarge(Exception):
    """A body went on beyond its limit."""


class Guard:
    """An ASGI app that serves another one to who has the token.

    Args:
        client_lost_s: ends the process when no client was heard of for so long; 0 for never.
    """

    def __init__(self, app: ASGIApp, token: str, client_lost_s: float = 0) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()
        self._presence = Presence(client_lost_s)

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
        with self._presence.answering():
            await self._serve(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        taken = 0

        async def receive_up_to_limit() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > BODY_BYTES_MAX:
                raise _TooLarge
            return message

        async def send_and_hear(message: Message) -> None:
            if taken > BODY_BYTES_MAX:
                return  # what the app makes of a body that was cut off
            if message["type"] == "http.response.start" and message["status"] < 400:
                self._presence.heard()
            await send(message)

        with suppress(_TooLarge):
            await self._app(scope, receive_up_to_limit, send_and_hear)
        if taken > BODY_BYTES_MAX:
            await _TOO_LARGE(scope, receive, send)
