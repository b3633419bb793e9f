"""The trainer server: any `art.Backend` behind HTTP, on the loopback, behind a bearer token.

Its guard (token, limits) is `precis.trainer.guard`.

Training happens once for each step: the host keeps what it trained and on which groups, and
answers a repeat with the stored result. A client that lost its connection asks again and is
attached to the work that went on meanwhile.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import httpx
import typer
from fastapi import APIRouter, Body, Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

import precis.trainer.cold_gpu  # noqa: F401 (before ART)
from precis.errors import LockHeld, PrecisError, TrainerError, TrainerLost
from precis.llm.connections import ONE_CONNECTION, ClientPool
from precis.processes.child import TOKEN_VARIABLE, serve
from precis.processes.file_lock import file_lock
from precis.processes.supervisor import claim
from precis.rehearsal.backend import EmbeddedBackend
from precis.rehearsal.extractive.kind import SENTENCES
from precis.rehearsal.tool_calls.kind import TOOL_CALLS
from precis.settings.trainer import BackendName
from precis.trainer.backend import TrainerBackend
from precis.trainer.guard import Guard
from precis.trainer.host import TrainerService
from precis.trainer.protocol import (
    CheckpointRequest,
    FileRequest,
    Json,
    ModelSpec,
    TrainRequest,
    digest_of,
)
from precis.trainer.tinker.check import require_client

_LOCK_PATIENCE_S = 30.0
"""The time to wait for a trainer whose flow was killed to be gone."""
_PROXY_TIMEOUT = httpx.Timeout(1200, connect=5)
_HOP_HEADERS = {"host", "authorization", "content-length", "connection", "transfer-encoding"}

T = TypeVar("T")

router = APIRouter()


def _find_service(request: Request) -> TrainerService:
    service: TrainerService = request.app.state.service
    return service


Served = Annotated[TrainerService, Depends(_find_service)]


def trainer_app(backend: TrainerBackend, path: Path, token: str, client_lost_s: float = 0) -> Guard:
    """Return the HTTP face of a backend whose files lie under `path`, for who has the token."""
    pool = ClientPool(
        lambda: httpx.AsyncClient(timeout=_PROXY_TIMEOUT, limits=ONE_CONNECTION, trust_env=False)
    )

    @asynccontextmanager
    async def close_at_the_end(_: FastAPI) -> AsyncIterator[None]:
        yield
        await pool.close()

    app = FastAPI(
        title="Précis trainer",
        lifespan=close_at_the_end,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    app.state.service = TrainerService(backend, path)
    app.state.pool = pool
    app.router.routes.extend((*backend.completions, *router.routes))
    app.add_exception_handler(PrecisError, _refuse)
    app.add_exception_handler(RequestValidationError, _refuse_invalid)
    app.add_exception_handler(HTTPException, _refuse_unserved)
    return Guard(app, token, client_lost_s)


@router.get("/healthz")
async def healthz() -> Json:
    return {"status": "ok"}


@router.post("/model/{action}")
async def model(
    action: Literal["register", "step", "state"], spec: ModelSpec, service: Served
) -> StreamingResponse:
    return _stream(service, f"{action} {spec}", lambda: getattr(service, action)(spec))


@router.post("/begin")
async def begin(spec: ModelSpec, run: Annotated[str, Body()], service: Served) -> StreamingResponse:
    return _stream(service, f"begin {spec} {run}", lambda: service.begin(spec, run))


@router.post("/train")
async def train(request: TrainRequest, service: Served) -> StreamingResponse:
    if digest_of(request.groups) != request.digest:
        raise TrainerError("The groups differ from their digest: they were altered on the way.")
    key = f"train {request.model.name} {request.step} {request.digest}"
    return _stream(service, key, lambda: service.train(request))


def _stream(
    service: TrainerService, key: str, work: Callable[[], Awaitable[Json]]
) -> StreamingResponse:
    """Start an operation, or attach to it, and tell how it goes."""
    events = service.start(key, work).events()
    return StreamingResponse(events, media_type="application/x-ndjson")


@router.post("/checkpoints/{action}")
async def checkpoints(
    action: Literal["commit", "fetch", "restore"], request: CheckpointRequest, service: Served
) -> StreamingResponse:
    return _stream(service, f"{action} {request}", lambda: getattr(service, action)(request))


@router.post("/file")
async def file(request: FileRequest, service: Served) -> FileResponse:
    return FileResponse(service.file(request))


@router.post("/checkpoints_to_keep")
async def keep(spec: ModelSpec, steps: list[int], service: Served) -> StreamingResponse:
    key = f"keep {spec} {steps}"
    return _stream(service, key, lambda: service.keep_checkpoints(spec, steps))


@router.post("/v1/chat/completions")
async def completions(request: Request, service: Served) -> Response:
    """Pass a request on to the backend's own endpoint, under the backend's name of the model; end
    it there when its client leaves."""
    if not service.endpoints:
        raise TrainerError("No model is registered: nothing to ask for completions.")
    headers = {k: v for k, v in request.headers.items() if k not in _HOP_HEADERS}
    body = await request.body()
    try:
        given = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise TrainerError("The request's body is not JSON that can be read.") from error
    model = given.get("model", "") if isinstance(given, dict) else ""
    asked = model if isinstance(model, str) else ""
    name = service.served_as(asked)
    base_url, api_key = service.endpoints[asked.rpartition("@")[0]]
    try:
        async with request.app.state.pool.client() as client:
            asking = client.request(
                "POST",
                f"{base_url}/chat/completions",
                content=_rename(body, asked, name),
                headers={**headers, "authorization": f"Bearer {api_key}"},
            )
            answer = await _while_connected(request, asking)
    except ClientDisconnect:
        return Response(status_code=499)  # nobody waits for it
    except httpx.TransportError as error:  # its engine has ended, and this process ends next
        lost = TrainerLost(f"What samples for this trainer does not answer ({error!r}).")
        return _refusal(lost, 502)
    kind = answer.headers.get("content-type")
    content = _rename(answer.content, name, asked) if answer.is_success else answer.content
    return Response(content, answer.status_code, media_type=kind)


async def _while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of some work; cancel it, and raise ClientDisconnect, when the client
    leaves."""

    async def leave() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    working = asyncio.create_task(work)
    leaving = asyncio.create_task(leave())
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
        if not working.done():
            working.cancel()
            await asyncio.wait({working})
    if working.cancelled():
        raise ClientDisconnect
    return working.result()


async def _refuse(_: Request, error: Any) -> Response:
    return _refusal(error, 400)


async def _refuse_invalid(_: Request, error: Any) -> Response:
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))
    return _refusal(TrainerError(f"The request does not fit: {where}: {first['msg']}."), 422)


async def _refuse_unserved(request: Request, error: Any) -> Response:
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


def open_backend(name: BackendName, path: Path, seed: int) -> TrainerBackend:
    """Return a backend whose models lie under `path`.

    Args:
        name: `extractive` and `tool_calls` train embedded policies; `local` is ART's LocalBackend,
            which needs a GPU; `serverless` has W&B train, and needs WANDB_API_KEY; `tinker` has
            whoever speaks the Tinker API train, and needs TINKER_API_KEY.
        seed: of an untrained policy or adapter.
    """
    if name == "extractive":
        return EmbeddedBackend(SENTENCES, path=path, seed=seed)
    if name == "tool_calls":
        return EmbeddedBackend(TOOL_CALLS, path=path, seed=seed)
    if name == "serverless":
        from precis.trainer.serverless import open_wandb  # W&B's client takes seconds to import

        return open_wandb(path)
    if name == "tinker":
        require_client()
        from precis.trainer.tinker.backend import TinkerBackend  # its packages are an extra

        return TinkerBackend(path, seed)
    from precis.trainer.gpu.backend import GpuBackend  # torch, vLLM: on a GPU's machine alone

    return GpuBackend(path, seed)


def main(
    path: Annotated[Path, typer.Option(help="Folder for models and checkpoints.")],
    seed: Annotated[int, typer.Option(help="Seed of the untrained policy.")] = 1,
    port: Annotated[int, typer.Option(help="Port on 127.0.0.1; 0 takes a free one.")] = 0,
    with_parent: Annotated[bool, typer.Option(help="Exit when standard input ends.")] = False,
    backend: Annotated[BackendName, typer.Option(help="What trains.")] = "extractive",
    client_lost_s: Annotated[
        float, typer.Option(help="Exit when no client has called for so long; 0 for never.")
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
