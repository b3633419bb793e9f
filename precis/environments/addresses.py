"""The HTTP addresses at which agents reach their rollouts' sessions."""

import asyncio
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from precis.llm.server import ApiError, authorize

if TYPE_CHECKING:
    from precis.environments.session import Session

ROOT = "/rollouts/"
"""The prefix of rollouts' paths; a rollout's number follows."""


class Sessions:
    """The open sessions, by number, and the HTTP `app` of their addresses. They run in the event
    loop that creates this."""

    def __init__(self) -> None:
        routes = [Route(f"{ROOT}{{rest:path}}", self._answer, methods=["GET", "POST"])]
        handlers: dict[Any, Any] = {ClientDisconnect: _answer_nobody, ApiError: _answer_error}
        self.app = Starlette(routes=routes, exception_handlers=handlers)
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
            ended = "The rollout has ended: each has its own address."
            raise ApiError(410, ended, "rollout_ended")
        if rest != "v1/chat/completions":
            other = f"/{rest} is not answered: ask by `chat.completions`, at /v1/chat/completions."
            raise ApiError(404, other, "not_found")
        authorize(request, key)
        asked = session.answer(await request.body())
        if asyncio.get_running_loop() is self._loop:
            return await asked
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asked, self._loop))


async def _answer_nobody(*_: object) -> Response:
    """Answer a client that has left, such as an agent that was killed while it asked."""
    return Response()


async def _answer_error(_: Request, error: ApiError) -> Response:
    return error.response()


def stream(body: Mapping[str, Any], with_usage: bool) -> Response:
    """Return a complete answer as the events of a stream."""
    choice = body["choices"][0]
    message = dict(choice["message"])
    calls = message.pop("tool_calls", None) or ()
    parts = [{"delta": message, "logprobs": choice.get("logprobs")}]
    # As other servers do: LlamaIndex reads one call of a chunk, and AutoGen none beside a text.
    for index, call in enumerate(calls):
        parts.append({"delta": {"tool_calls": [{**call, "index": index}]}})
    parts.append({"delta": {}, "finish_reason": choice.get("finish_reason")})
    base = {key: body.get(key) for key in ("id", "created", "model")}
    base["object"] = "chat.completion.chunk"
    chunks = []
    for part in parts:
        chunks.append({**base, "choices": [{"index": 0, "finish_reason": None, **part}]})
    if with_usage:
        chunks.append({**base, "choices": [], "usage": body.get("usage")})
    events = ""
    for chunk in chunks:
        events += f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n"
    return Response(f"{events}data: [DONE]\n\n", media_type="text/event-stream")
