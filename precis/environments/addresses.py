"""The two ways to a rollout's session: the client of `model.openai_client()`, and plain HTTP."""

import asyncio
import hmac
import json
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from precis.environments.session import Session, SessionReply, refuse

ROOT = "/rollouts/"
"""Of the paths of rollouts, each of which continues with its number."""
_COMPLETIONS = "/v1/chat/completions"


class Sessions:
    """The sessions that are open, by number. Their loop is the one that this is made in."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._open: dict[str, tuple[str, Session]] = {}

    def add(self, number: str, key: str, session: Session) -> None:
        """Open a session at an address."""
        self._open[number] = (key, session)

    def remove(self, number: str) -> None:
        """Close the address; who asks there is told that the rollout has ended."""
        self._open.pop(number)[1].close()

    async def answer(self, path: str, authorization: str, content: bytes) -> Response:
        """Answer a request to an address, from whichever loop it comes."""
        number, _, rest = path.removeprefix(ROOT).partition("/")
        key, session = self._open.get(number, ("", None))
        if session is None:
            gone = "The rollout has ended, or there was none."
            return _response(refuse(410, gone, "rollout_ended"))
        if not hmac.compare_digest(authorization.encode(), f"Bearer {key}".encode()):
            return _response(refuse(401, "Missing or wrong bearer token.", "invalid_api_key"))
        if f"/{rest}" != _COMPLETIONS:
            return _response(refuse(404, "Only chat completions are answered here.", "not_found"))
        if asyncio.get_running_loop() is self._loop:
            return _response(await session.answer(content))
        asked = asyncio.run_coroutine_threadsafe(session.answer(content), self._loop)
        return _response(await asyncio.wrap_future(asked))


class SessionTransport(httpx.AsyncBaseTransport):
    """Takes requests to the sessions of this process without a socket between them."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = await self._sessions.answer(
            request.url.path, request.headers.get("authorization", ""), await request.aread()
        )
        content = bytes(answer.body)
        return httpx.Response(answer.status_code, headers=dict(answer.headers), content=content)


def sessions_app(sessions: Sessions) -> Starlette:
    """Return the sessions' HTTP server."""

    async def serve(request: Request) -> Response:
        authorization = request.headers.get("authorization", "")
        return await sessions.answer(request.url.path, authorization, await request.body())

    return Starlette(routes=[Route(f"{ROOT}{{rest:path}}", serve, methods=["GET", "POST"])])


def _response(answer: SessionReply) -> Response:
    if answer.status != 200:
        # OpenAI's client tries again what failed for a while, unless it is told not to.
        return JSONResponse(answer.body, answer.status, {"x-should-retry": "false"})
    if answer.streamed:
        events = "".join(_events(answer.body, answer.with_usage))
        return Response(events, media_type="text/event-stream")
    return JSONResponse(answer.body)


def _events(body: Mapping[str, Any], with_usage: bool) -> Iterator[str]:
    """Give a whole answer as the events of a stream."""
    choice = body["choices"][0]
    delta = dict(choice["message"])
    if delta.get("tool_calls"):
        calls = enumerate(delta["tool_calls"])
        delta["tool_calls"] = [{**call, "index": index} for index, call in calls]
    first = {"index": 0, "delta": delta, "finish_reason": None}
    if choice.get("logprobs"):
        first["logprobs"] = choice["logprobs"]
    last = {"index": 0, "delta": {}, "finish_reason": choice.get("finish_reason")}
    base = {key: body.get(key) for key in ("id", "created", "model")}
    base["object"] = "chat.completion.chunk"
    yield _event({**base, "choices": [first]})
    yield _event({**base, "choices": [last]})
    if with_usage:
        yield _event({**base, "choices": [], "usage": body.get("usage")})
    yield "data: [DONE]\n\n"


def _event(chunk: Mapping[str, Any]) -> str:
    return f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n"
