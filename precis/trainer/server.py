"""The trainer server: any `art.Backend` behind HTTP, on the loopback, behind a bearer token.

What stands before it (token, limits) is `precis.trainer.guard`.

Training happens once for each step: the host keeps what it trained and on which groups, and
answers a repeat with the stored result. A client that lost its connection asks again and is
attached to the work that went on meanwhile.
"""

import json
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer
from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException

import precis.trainer.cold_gpu  # noqa: F401 (before ART)
from precis.errors import LockHeld, PrecisError, StepConflict, TrainerError, TrainerLost
from precis.llm.pool import ONE_CONNECTION, ClientPool
from precis.processes.child import TOKEN_VARIABLE, serve
from precis.processes.file_lock import file_lock
from precis.processes.supervisor import claim
from precis.settings.trainer import BackendName
from precis.trainer.backend import TrainerBackend
from precis.trainer.backends import open_backend
from precis.trainer.guard import Guard
from precis.trainer.host import TrainerService
from precis.trainer.jobs import Jobs
from precis.trainer.protocol import (
    BeginRequest,
    CheckpointRequest,
    FileRequest,
    Json,
    ModelSpec,
    TrainRequest,
    digest_of,
)

_LOCK_PATIENCE_S = 30.0
"""The time to wait for a trainer whose flow was killed to be gone."""
_PROXY_TIMEOUT = httpx.Timeout(1200, connect=5)
_STATUSES: dict[type[PrecisError], int] = {StepConflict: 409}
_NO_JSON = "The request's body is no JSON that can be read."
_HOP_HEADERS = {"host", "authorization", "content-length", "connection", "transfer-encoding"}
_COMPLETIONS_PATH = re.compile(r"[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)*")
"""A path below /v1; what has dots, or anything else that a URL may be bent with, is none."""


class ServedTrainer:
    """The objects that the handlers below work with: the backend's service, its jobs, its
    completions."""

    def __init__(self, backend: TrainerBackend, path: Path) -> None:
        self.service = TrainerService(backend, path)
        self.jobs = Jobs()
        self.inference = ClientPool(
            lambda: httpx.AsyncClient(
                timeout=_PROXY_TIMEOUT, limits=ONE_CONNECTION, trust_env=False
            )
        )

    def stream(self, key: str, work: Callable[[], Awaitable[Json]]) -> StreamingResponse:
        """Start a long operation, or attach to it, and tell how it goes."""
        job = self.jobs.start(key, work)
        return StreamingResponse(job.events(), media_type="application/x-ndjson")


def _find_trainer(request: Request) -> ServedTrainer:
    served: ServedTrainer = request.app.state.trainer
    return served


Served = Annotated[ServedTrainer, Depends(_find_trainer)]


def trainer_app(backend: TrainerBackend, path: Path, token: str, client_lost_s: float = 0) -> Guard:
    """Return the HTTP face of a backend whose files lie under `path`, for who has the token."""
    served = ServedTrainer(backend, path)

    @asynccontextmanager
    async def close_at_the_end(_: FastAPI) -> AsyncIterator[None]:
        yield
        await served.inference.close()

    app = FastAPI(
        title="Précis trainer",
        lifespan=close_at_the_end,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    app.state.trainer = served
    app.add_api_route("/healthz", healthz, methods=["GET"])
    for route, handler in _HANDLERS.items():
        app.add_api_route(route, handler, methods=["POST"])
    app.router.routes.extend(backend.completions)
    app.add_api_route("/v1/{path:path}", completions, methods=["GET", "POST"])
    app.add_exception_handler(PrecisError, _refuse)
    app.add_exception_handler(RequestValidationError, _refuse_invalid)
    app.add_exception_handler(HTTPException, _refuse_unserved)
    return Guard(app, token, client_lost_s)


async def healthz() -> Json:
    return {"status": "ok"}


async def register(spec: ModelSpec, served: Served) -> StreamingResponse:
    return served.stream(f"register {spec}", lambda: served.service.register(spec))


async def step(spec: ModelSpec, served: Served) -> Json:
    return {"step": await served.service.step(spec)}


async def state(spec: ModelSpec, served: Served) -> StreamingResponse:
    return served.stream(f"state {spec}", lambda: served.service.state(spec))


async def begin(request: BeginRequest, served: Served) -> StreamingResponse:
    return served.stream(f"begin {request}", lambda: served.service.begin(request))


async def train(request: TrainRequest, served: Served) -> StreamingResponse:
    return _stream_training(request, served, served.service.train)


async def train_sft(request: TrainRequest, served: Served) -> StreamingResponse:
    return _stream_training(request, served, served.service.train_sft)


def _stream_training(
    request: TrainRequest,
    served: ServedTrainer,
    training: Callable[[TrainRequest], Awaitable[Json]],
) -> StreamingResponse:
    if digest_of(request.groups) != request.digest:
        raise TrainerError("The groups differ from their digest: they were altered on the way.")
    served.service.find_result(request)
    key = f"train {request.model.name} {request.step} {request.digest}"
    return served.stream(key, lambda: training(request))


async def checkpoints(action: str, request: CheckpointRequest, served: Served) -> StreamingResponse:
    service = served.service
    actions = {"commit": service.commit, "fetch": service.fetch, "restore": service.restore}
    if action not in actions:
        raise TrainerError(f"No such action: {action}.")
    return served.stream(f"{action} {request}", lambda: actions[action](request))


async def file(request: FileRequest, served: Served) -> FileResponse:
    return FileResponse(served.service.file(request))


async def keep(spec: ModelSpec, steps: list[int], served: Served) -> Json:
    await served.service.keep_checkpoints(spec, steps)
    return {}


async def completions(path: str, request: Request, served: Served) -> Response:
    """Pass a request on to the backend's own endpoint, under the backend's name of the model."""
    if served.service.inference is None:
        raise TrainerError("No model is registered: nothing to ask for completions.")
    if not _COMPLETIONS_PATH.fullmatch(path):
        raise TrainerError(f"/v1/{path[:200]} is no path of the completions API.")
    base_url, api_key = served.service.inference
    headers = {k: v for k, v in request.headers.items() if k not in _HOP_HEADERS}
    body = await request.body()
    try:
        given = json.loads(body or b"{}")
    except (ValueError, RecursionError) as error:
        raise TrainerError(_NO_JSON) from error
    model = given.get("model", "") if isinstance(given, dict) else ""
    asked = model if isinstance(model, str) else ""
    name = served.service.served_as(asked) if request.method == "POST" else asked
    try:
        async with served.inference.client() as client:
            answer = await client.request(
                request.method,
                f"{base_url}/{path}",
                content=_rename(body, asked, name),
                headers={**headers, "authorization": f"Bearer {api_key}"},
            )
    except httpx.TransportError as error:  # its engine has ended, and this process ends next
        lost = TrainerLost(f"What samples for this trainer does not answer ({error!r}).")
        return _refusal(lost, 502)
    kind = answer.headers.get("content-type")
    content = _rename(answer.content, name, asked) if answer.is_success else answer.content
    return Response(content, answer.status_code, media_type=kind)


_HANDLERS: dict[str, Callable[..., Awaitable[Any]]] = {
    "/register": register,
    "/step": step,
    "/state": state,
    "/begin": begin,
    "/train": train,
    "/train_sft": train_sft,
    "/checkpoints/{action}": checkpoints,
    "/file": file,
    "/checkpoints_to_keep": keep,
}
"""The paths that clients post to, with their handlers."""


async def _refuse(_: Request, error: Exception) -> Response:
    assert isinstance(error, PrecisError)
    return _refusal(error, _STATUSES.get(type(error), 400))


async def _refuse_invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    # 400 for what is no JSON, 422 for what does not fit the protocol, with the first reason.
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return _refusal(TrainerError(_NO_JSON), 400)
    where = ".".join(map(str, first["loc"]))
    return _refusal(TrainerError(f"The request does not fit: {where}: {first['msg']}."), 422)


async def _refuse_unserved(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    asked = f"{request.method} {request.url.path}"
    return _refusal(TrainerError(f"{asked}: {error.detail}."), error.status_code)


def _refusal(error: PrecisError, status: int) -> JSONResponse:
    return JSONResponse({"type": type(error).__name__, "message": str(error)}, status)


def _rename(body: bytes, model: str, name: str) -> bytes:
    """Return a request or an answer with another name of the model that it is about."""
    if model == name:
        return body
    message = json.loads(body)
    if message.get("model") != model:
        return body
    return json.dumps({**message, "model": name}).encode()


def main(
    path: Annotated[Path, typer.Option(help="Folder for models and checkpoints.")],
    seed: Annotated[int, typer.Option(help="Seed of the untrained policy.")] = 1,
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1; 0 takes a free one.")] = 0,
    with_parent: Annotated[bool, typer.Option(help="Exit when standard input ends.")] = False,
    backend: Annotated[BackendName, typer.Option(help="What trains.")] = "extractive",
    client_lost_s: Annotated[
        float, typer.Option(help="Exit when no client was heard of for so long; 0 for never.")
    ] = 0,
) -> None:
    """Serve a trainer; its bearer token is read from PRECIS_TOKEN."""
    token = os.environ.get(TOKEN_VARIABLE, "")
    if not token:
        raise SystemExit(f"Set {TOKEN_VARIABLE} to the bearer token to ask for.")
    path.mkdir(parents=True, exist_ok=True)
    try:
        with file_lock(path / ".lock", _LOCK_PATIENCE_S) as lock:
            claim(lock)
            app = trainer_app(open_backend(backend, path, seed), path, token, client_lost_s)
            serve(app, port, with_parent=with_parent)
    except LockHeld as error:
        raise SystemExit(
            f"Another trainer works in {path}: stop it, or choose another --path. {error.what}"
        ) from error


if __name__ == "__main__":
    typer.run(main)
