"""Reporting completions: each service gets what its API asks for, and nobody ever waits for one."""

import asyncio
import base64
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from pydantic import SecretStr
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from precis.environment import Environment
from precis.environments.summaries.judge import Unscored
from precis.llm.loop_server import LoopServer
from precis.observe.completions import CompletionRecord, completions_of_step
from precis.observe.observers import Observers, observing, services
from precis.observe.sender import Sender
from tests.support.completions import SEEN
from tests.support.rollouts import DOCUMENT, rollouts


class Endpoint:
    """Records what it is posted, by path, and answers as `answer` says."""

    def __init__(self) -> None:
        self.got: list[tuple[str, dict[str, str], Any]] = []
        self.answer: Callable[[Request], Awaitable[Response]] = self.accept

    async def __call__(self, request: Request) -> Response:
        self.got.append((request.url.path, dict(request.headers), await request.json()))
        return await self.answer(request)

    async def accept(self, request: Request) -> Response:
        return JSONResponse({})

    async def fail(self, request: Request) -> Response:
        return JSONResponse({"error": "down for today"}, 400)

    async def hang(self, request: Request) -> Response:
        await asyncio.sleep(1)
        return JSONResponse({})


@pytest.fixture
def endpoint() -> Endpoint:
    return Endpoint()


@pytest.fixture
async def url(endpoint: Endpoint) -> AsyncIterator[str]:
    async def serve(request: Request) -> Response:
        return await endpoint(request)

    server = LoopServer(Starlette(routes=[Route("/{path:path}", serve, methods=["POST"])]))
    await server.start()
    yield f"http://127.0.0.1:{server.port}"
    await asyncio.wait_for(server.stop(), 10)


def environment(**settings: Any) -> Environment:
    """One with these settings and no keys but them, whatever the shell has."""
    keys = ("openpipe_api_key", "langfuse_public_key", "langfuse_secret_key", "wandb_api_key")
    empty: dict[str, Any] = dict.fromkeys((*keys, "weave_project"))
    return Environment().model_copy(update={**empty, **settings})


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


async def told(settings: Environment, *seen: CompletionRecord) -> None:
    async with observing(settings) as observers:
        observers.completions(seen)


def test_nobody_is_told_without_a_key() -> None:
    assert services(environment()) == []
    assert services(environment(wandb_api_key=SecretStr("k"))) == [], "Weave wants a project too"
    assert services(environment(langfuse_public_key=SecretStr("k"))) == []


async def test_openpipe_gets_each_call_as_a_report(url: str, endpoint: Endpoint) -> None:
    key = SecretStr("opk-secret")
    settings = environment(openpipe_api_key=key, openpipe_base_url=f"{url}/api/v1")
    await told(settings, SEEN, SEEN)
    assert [path for path, _, _ in endpoint.got] == ["/api/v1/report"] * 2
    _, headers, report = endpoint.got[0]
    assert headers["authorization"] == "Bearer opk-secret"
    assert (report["requestedAt"], report["receivedAt"]) == (1_800_000_000_250, 1_800_000_000_500)
    assert report["reqPayload"] == {
        "model": "m@4",
        "messages": [{"role": "user", "content": "Summarize."}],
        "temperature": 0.0,
    }
    assert report["respPayload"]["choices"][0]["message"]["content"] == "The mayor did."
    assert report["respPayload"]["usage"]["total_tokens"] == 43
    assert report["statusCode"] == 200
    assert all(isinstance(value, str) for value in report["metadata"].values())
    assert report["metadata"]["score.accuracy"] == "0.75"


async def test_langfuse_gets_a_trace_with_a_generation_and_its_scores(
    url: str, endpoint: Endpoint
) -> None:
    settings = environment(
        langfuse_public_key=SecretStr("pk-lf"),
        langfuse_secret_key=SecretStr("sk-lf"),
        langfuse_host=url,
    )
    await told(settings, SEEN)
    (path, headers, sent), *scores = endpoint.got
    assert path == "/api/public/otel/v1/traces"
    assert headers["authorization"] == basic("pk-lf", "sk-lf")
    assert headers["x-langfuse-ingestion-version"] == "4"
    (span,) = sent["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert (len(span["traceId"]), len(span["spanId"])) == (32, 16)
    assert span["startTimeUnixNano"] == "1800000000250000000"
    told_of = {each["key"]: each["value"].get("stringValue") for each in span["attributes"]}
    assert told_of["langfuse.observation.type"] == "generation"
    assert told_of["langfuse.observation.output"] == "The mayor did."
    assert json.loads(told_of["langfuse.observation.usage_details"]) == {"input": 40, "output": 3}
    assert [path for path, _, _ in scores] == ["/api/public/scores"] * 2
    assert scores[0][2] == {
        "id": f"{SEEN.id}-accuracy",
        "traceId": SEEN.id,
        "observationId": SEEN.id[:16],
        "name": "accuracy",
        "value": 0.75,
        "dataType": "NUMERIC",
    }


async def test_weave_gets_completed_calls(url: str, endpoint: Endpoint) -> None:
    settings = environment(
        wandb_api_key=SecretStr("wb-key"), weave_project="team/precis", weave_url=url
    )
    await told(settings, SEEN)
    ((path, headers, sent),) = endpoint.got
    assert path == "/v2/team/precis/calls/complete"
    assert headers["authorization"] == basic("api", "wb-key")
    (call,) = sent["batch"]
    wanted = {"id", "project_id", "trace_id", "op_name", "started_at", "ended_at", "attributes"}
    assert wanted | {"inputs", "summary", "output"} <= call.keys()
    assert call["started_at"] == "2027-01-15T08:00:00.250000+00:00"
    assert call["output"]["scores"] == {"accuracy": 0.75, "words": 3.0}
    assert call["summary"]["usage"]["m@4"]["total_tokens"] == 43


async def test_a_service_that_refuses_is_told_of_once_and_stops_nothing(
    url: str, endpoint: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint.answer = endpoint.fail
    settings = environment(openpipe_api_key=SecretStr("opk-secret"), openpipe_base_url=url)
    with caplog.at_level(logging.WARNING, "precis.observe"):
        await told(settings, *[SEEN] * 120)
    first, last = (record.getMessage() for record in caplog.records)
    assert "OpenPipe does not take all completions: it answered 400" in first
    assert last == "OpenPipe has not got 120 completions."
    assert "opk-secret" not in caplog.text


async def test_a_slow_service_delays_nothing_and_the_end_is_bounded(
    url: str, endpoint: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint.answer = endpoint.hang
    settings = environment(openpipe_api_key=SecretStr("k"), openpipe_base_url=url)
    sender = Sender(services(settings)[0], queue_max=10)
    observers = Observers([sender])
    began = time.monotonic()
    observers.completions([SEEN] * 200)
    assert time.monotonic() - began < 60, "one after another they take 200 s"
    await asyncio.to_thread(observers.close, 0.2)
    assert time.monotonic() - began < 8
    assert "OpenPipe has not got" in caplog.text


def test_a_rollout_is_seen_with_its_verdict_or_without_one() -> None:
    lost = Unscored("timeout", "late")
    row = rollouts(True, lost)
    told = list(completions_of_step([row], run="r", policy="m@4", split="train", step=4))
    scored, unscored = told
    assert scored.scores == {"reward": 1.0, "words": 2, "correct": 1, "asked": 1}
    assert unscored.scores == {} and unscored.notes["unscored"] == "timeout"
    assert scored.notes["scenario"] == DOCUMENT.id and scored.id != unscored.id
    assert scored.messages[1]["content"].count(DOCUMENT.text) == 1


def test_the_same_summary_in_two_steps_of_one_adapter_is_told_as_two() -> None:
    """With `off_policy_steps` two steps can be sampled from it, of the same document."""
    told: list[CompletionRecord] = []
    for step in (0, 1, 1):
        told += completions_of_step(
            [rollouts(True)], run="r", policy="m@0", split="train", step=step
        )
    first, second, again = (one.id for one in told)
    assert first != second == again
