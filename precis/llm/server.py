"""An OpenAI-compatible chat completions endpoint around one function, so that the embedded policy,
the baselines and the local judge are called like hosted models."""

import hmac
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from precis.record import first_problem
from precis.records.spend import Usage
from precis.text import count_words


class ApiError(Exception):
    """An answer in OpenAI's error format, with its machine-readable code, such as
    `model_not_found`."""

    def __init__(self, status: int, message: str, code: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code

    def response(self) -> JSONResponse:
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        error = {"message": str(self), "type": kind, "param": None, "code": self.code}
        return JSONResponse({"error": error}, self.status)


class ChatRequest(BaseModel):
    """The fields of OpenAI's request that our services use; the rest is ignored."""

    model_config = ConfigDict(extra="allow")

    model: str
    messages: list[dict[str, Any]] = Field(min_length=1)
    temperature: float = Field(1.0, ge=0, le=2)
    seed: int | None = None
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    n: int = Field(1, ge=1, le=128)
    logprobs: bool = False
    return_token_ids: bool = False
    tools: list[dict[str, Any]] | None = None
    tool_choice: Any = None
    response_format: dict[str, Any] | None = None
    stream: bool = False


def callable_tools(
    tools: Sequence[Mapping[str, Any]] | None, choice: Any
) -> Sequence[Mapping[str, Any]]:
    """Return the callable tools by a request's `tools` and `tool_choice`."""
    if choice == "none":
        return ()
    chosen = choice.get("function") if isinstance(choice, Mapping) else None
    if isinstance(chosen, Mapping):
        name = chosen.get("name")
        return [one for one in tools or () if (one.get("function") or {}).get("name") == name]
    return tools or ()


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool, with a JSON object as arguments, and an id for its result."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Choice:
    """One answer.

    Attributes:
        logprobs: OpenAI's `logprobs.content` entries, if requested.
        completion_tokens: for the usage record; counted as words if not given.
        token_ids: the sampled tokens, as from vLLM with `return_token_ids`.
    """

    content: str
    finish_reason: str = "stop"
    logprobs: list[dict[str, Any]] | None = None
    completion_tokens: int | None = None
    tool_calls: Sequence[ToolCall] = ()
    token_ids: Sequence[int] | None = None

    @property
    def tokens(self) -> int:
        given = self.completion_tokens
        return count_words(self.content) if given is None else given


@dataclass(frozen=True)
class Completion:
    """The answer to a request, and the prompt's tokens if requested."""

    model: str
    choices: Sequence[Choice]
    prompt_tokens: int | None = None
    prompt_ids: Sequence[int] | None = None


Complete = Callable[[ChatRequest], Awaitable[Completion]]


def completions_app(
    complete: Complete, models: Callable[[], Sequence[str]], api_key: str | None = None
) -> Starlette:
    """Serve `complete`, which may raise ApiError, as `/v1/chat/completions`, and `models` as
    `/v1/models`. Without an `api_key` there is no authorization."""

    async def chat(request: Request) -> JSONResponse:
        try:
            authorize(request, api_key)
            asked = ChatRequest.model_validate_json(await request.body())
            if asked.stream:
                raise ApiError(400, "Streaming is not served here: leave out `stream`.", "stream")
            completion = await complete(asked)
        except ValidationError as error:
            return ApiError(400, first_problem(error), "invalid_request").response()
        except ApiError as error:
            return error.response()
        prompt = completion.prompt_tokens
        if prompt is None:
            prompt = sum(count_words(str(message.get("content"))) for message in asked.messages)
        output = sum(choice.tokens for choice in completion.choices)
        envelope = {
            "id": f"chatcmpl-{uuid.uuid4().hex}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": completion.model,
            "choices": [_choice(index, choice) for index, choice in enumerate(completion.choices)],
            "usage": Usage(prompt, output).in_response,
        }
        if completion.prompt_ids is not None:
            envelope["prompt_token_ids"] = list(completion.prompt_ids)
        return JSONResponse(envelope)

    async def list_models(request: Request) -> JSONResponse:
        try:
            authorize(request, api_key)
        except ApiError as error:
            return error.response()
        data = [{"id": name, "object": "model", "owned_by": "precis"} for name in models()]
        return JSONResponse({"object": "list", "data": data})

    return Starlette(
        routes=[
            Route("/v1/chat/completions", chat, methods=["POST"]),
            Route("/v1/models", list_models),
        ],
        # A client may be cancelled while it asks.
        exception_handlers={ClientDisconnect: lambda *_: Response()},
    )


def authorize(request: Request, api_key: str | None) -> None:
    """Raise a 401 without the right bearer token, compared in constant time."""
    given = request.headers.get("authorization", "")
    if api_key is not None and not hmac.compare_digest(
        given.encode(), f"Bearer {api_key}".encode()
    ):
        raise ApiError(401, "Missing or wrong bearer token.", "invalid_api_key")


def _choice(index: int, choice: Choice) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": choice.content}
    if choice.tool_calls:
        message["content"] = choice.content or None
        message["tool_calls"] = []
        for call in choice.tool_calls:
            function = {"name": call.name, "arguments": call.arguments}
            message["tool_calls"].append({"id": call.id, "type": "function", "function": function})
    answer: dict[str, Any] = {
        "index": index,
        "message": message,
        "finish_reason": choice.finish_reason,
        "logprobs": {"content": choice.logprobs} if choice.logprobs is not None else None,
    }
    if choice.token_ids is not None:
        answer["token_ids"] = list(choice.token_ids)
    return answer
