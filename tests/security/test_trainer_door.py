"""The trainer's server: nothing of a request is read before its token is right, and nothing of one
that is allowed breaks it or leads out of it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.responses import JSONResponse, Response

from precis.trainer.guard import BODY_BYTES_MAX, Guard
from precis.trainer.server import trainer_app
from tests.support.local_server import serving
from tests.support.trainers import TOKEN, CountingBackend

PATIENCE_S = 60
"""Longer than any answer takes, and shorter than for ever."""
SPEC = {"name": "m", "project": "p", "base_model": "b"}
DEEP = b"[" * 200_000


@pytest.fixture
def backend(tmp_path: Path) -> CountingBackend:
    return CountingBackend(tmp_path / "trainer")


@pytest.fixture
async def port(backend: CountingBackend) -> AsyncIterator[int]:
    async with serving(trainer_app(backend, backend.path, TOKEN)) as url:
        yield int(url.rpartition(":")[2])


@pytest.fixture
async def client(port: int) -> AsyncIterator[httpx.AsyncClient]:
    """Somebody with the token, whose model is registered."""
    headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
    url = f"http://127.0.0.1:{port}"
    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE_S, headers=headers) as client:
        assert (await client.post("/model/register", json=SPEC)).status_code == 200
        yield client


@pytest.fixture
async def upstream(backend: CountingBackend) -> AsyncIterator[list[str]]:
    """The paths that the model's own server behind the trainer is asked for."""
    asked: list[str] = []

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        asked.append(scope["path"])
        await JSONResponse({})(scope, receive, send)

    async with serving(answer) as url:
        backend.inference_url = f"{url}/v1"
        yield asked


async def say(port: int, request: bytes) -> tuple[int, str]:
    """The status and the one sentence that these very bytes are answered with."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        async with asyncio.timeout(PATIENCE_S):
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split()[0])
            body = await reader.readexactly(length)
    finally:
        writer.close()
    answer = json.loads(body)
    assert set(answer) == {"type", "message"} and len(answer["message"]) < 500
    return int(head.split()[1]), answer["message"]


def request(path: str, body: bytes = b"", length: int | None = None, token: str = TOKEN) -> bytes:
    announced = len(body) if length is None else length
    head = (
        f"POST {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n"
        f"content-type: application/json\r\ncontent-length: {announced}\r\n\r\n"
    )
    return head.encode() + body


@pytest.mark.parametrize("path", ["/train", "/v1/chat/completions", "/../file", "/nowhere"])
@pytest.mark.parametrize("token", ["wrong", "", f"{TOKEN}x", f"Bearer {TOKEN}"])
async def test_without_the_token_no_body_is_waited_for(port: int, path: str, token: str) -> None:
    status, _ = await say(port, request(path, length=10**10, token=token))
    assert status == 401


async def test_a_body_beyond_the_limit_is_refused_before_it_comes(port: int) -> None:
    status, said = await say(port, request("/train", length=BODY_BYTES_MAX + 1))
    assert status == 413
    assert "train on fewer groups" in said


async def swallow(scope: Any, receive: Any, send: Any) -> None:
    """An app that reads a whole body, and makes something of it whatever happened."""
    with contextlib.suppress(Exception):  # as FastAPI does, which says 400
        while (await receive())["more_body"]:
            pass
    await Response(b"something", 400)(scope, receive, send)


async def sent_by_guard(scope: dict[str, Any], receive: Any) -> list[Any]:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await Guard(swallow, TOKEN)(scope, receive, send)
    return sent


async def test_a_body_that_never_ends_is_cut_off() -> None:
    piece = {"type": "http.request", "body": b"x" * (BODY_BYTES_MAX // 4), "more_body": True}
    pieces = 0

    async def receive() -> Any:
        nonlocal pieces
        pieces += 1
        assert pieces < 10
        return piece

    headers = [(b"authorization", f"Bearer {TOKEN}".encode())]
    scope = {"type": "http", "method": "POST", "path": "/", "headers": headers}
    sent = await sent_by_guard(scope, receive)
    assert [one.get("status") for one in sent] == [413, None]
    assert pieces == 5


async def test_a_websocket_is_closed_unheard() -> None:
    async def receive() -> Any:
        raise AssertionError("it was listened to")

    sent = await sent_by_guard({"type": "websocket", "path": "/"}, receive)
    assert sent == [{"type": "websocket.close", "code": 1008}]


BROKEN = [b"{", b"\xff\xfe", DEEP, b'{"model": ' * 50_000]
NO_MODELS = [b"[]", b'"x"', b"7", b'{"model": ["m"]}', b"null"]
COMPLETIONS = "/v1/chat/completions"


@pytest.mark.parametrize(
    "path", ["/model/register", "/train", "/model/state", "/file", COMPLETIONS]
)
async def test_broken_json_and_a_completion_of_no_model_are_bad_requests_in_one_sentence(
    upstream: list[str], client: httpx.AsyncClient, port: int, path: str
) -> None:
    for body in (*BROKEN, *(NO_MODELS if path == COMPLETIONS else [])):
        status, _ = await say(port, request(path, body))
        assert status in (400, 422), body[:20]
    assert upstream == []


@pytest.mark.parametrize(
    "path",
    [
        "/v1/../metrics",
        "/v1/%2e%2e/metrics",
        "/v1/models/%2e%2e/%2e%2e/metrics",
        "/v1/..%2fmetrics",
        "/v1/%2e%2e%5cmetrics",
        "/v1//metrics",
        "/v1/./metrics",
        "/v1/models%3fx=1",
        "/v1/models%23x",
        "/v1/%20",
        "/v1/models",
    ],
)
async def test_nothing_but_completions_is_passed_on(
    upstream: list[str], client: httpx.AsyncClient, port: int, path: str
) -> None:
    body = json.dumps({"model": "m@0"}).encode()
    assert (await client.post(COMPLETIONS, content=body)).status_code == 200
    status, _ = await say(port, request(path, body))
    assert status == 404
    assert upstream == [COMPLETIONS]


@pytest.mark.parametrize("name", ["../../outside", "a/b", "..", "", "a b", "m\n", "m" * 65])
@pytest.mark.parametrize("which", ["name", "project"])
async def test_a_name_that_is_a_path_is_refused_and_makes_no_folder(
    port: int, tmp_path: Path, which: str, name: str
) -> None:
    before = sorted(tmp_path.rglob("*"))
    body = json.dumps({**SPEC, which: name}).encode()
    for path in ("/model/register", "/model/state"):
        status, said = await say(port, request(path, body))
        assert status == 422
        assert which in said
    assert sorted(tmp_path.rglob("*")) == before
    for step in (-1, 10**9, 10**30):
        wrong = json.dumps({"model": SPEC, "step": step, "path": "weights"}).encode()
        status, said = await say(port, request("/file", wrong))
        assert status == 422
        assert "step" in said
