"""The HTTP addresses at which agents reach their rollouts' sessions."""

import asyncio
import hmac
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

if TYPE_CHECKING:
    from precis.environments.session import Session

ROOT = "/rollouts/"
"""The prefix of rollouts' paths; a rollout's number follows."""


class Sessions:
    """The open sessions, by number, and the HTTP `app` of their addresses. They run in the event
    loop that creates this."""

    def __init__(self) -> None:
        routes = [Route(f"{ROOT}{{rest:path}}", self._answer, methods=["GET", "POST"])]
        # An agent may be killed while it asks.
        gone = {ClientDisconnect: lambda *_: Response()}
        self.app = Starlette(routes=routes, exception_handlers=gone)
        self._loop = asyncio.get_running_loop()
        self._open: dict[str, tuple[str, Session]] = {}

    def add(self, number: str, key: str, session: "Session") -> None:
        self._open[number] = (key, session)

    def remove(self, number: str) -> None:
        """Close an address; later requests get an error that the rollout has ended."""
        self._open.pop(number)[1].close()

    async def _answer(self, request: Request) -> Response:
        """Answer a request to an address, from any event loop."""
        number, _, rest = request.path_params["rest"].partition("/")
        key, session = self._open.get(number, ("", None))
        if session is None:
            return refuse(410, "The rollout has ended: each has its own address.", "rollout_ended")
        given = request.headers.get("authorization", "")
        if not hmac.compare_digest(given.encode(), f"Bearer {key}".encode()):
            return refuse(401, "Missing or wrong bearer token.", "invalid_api_key")
        if rest != "v1/chat/completions":
            return refuse(404, "Only chat completions are answered here.", "not_found")
        asked = session.answer(await request.body())
        if asyncio.get_running_loop() is self._loop:
            return await asked
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asked, self._loop))


def refuse(status: int, message: str, code: str) -> Response:
    """Return an error in the format of OpenAI's API."""
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    # Without this header OpenAI's client would retry.
    return JSONResponse({"error": error}, status, {"x-should-retry": "false"})


def stream(body: Mapping[str, Any], with_usage: bool) -> Response:
    """Return a complete answer as the events of a stream."""
    choice = body["choices"][0]
    delta = dict(choice["message"])
    if delta.get("tool_calls"):
        calls = []
        for index, call in enumerate(delta["tool_calls"]):
            calls.append({**call, "index": index})
        delta["tool_calls"] = calls
    first = {"index": 0, "delta": delta, "finish_reason": None}
    if choice.get("logprobs"):
        first["logprobs"] = choice["logprobs"]
    last = {"index": 0, "delta": {}, "finish_reason": choice.get("finish_reason")}
    base = {key: body.get(key) for key in ("id", "created", "model")}
    base["object"] = "chat.completion.chunk"
    chunks = [{**base, "choices": [first]}, {**base, "choices": [last]}]
    if with_usage:
        chunks.append({**base, "choices": [], "usage": body.get("usage")})
    events = ""
    for chunk in chunks:
        events += f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n"
    return Response(f"{events}data: [DONE]\n\n", media_type="text/event-stream")
