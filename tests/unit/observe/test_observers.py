"""Reporting rollouts: each service gets what its API asks for, and nobody ever waits for one."""

import asyncio
import base64
import json
import logging
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from precis.environment import Variables
from precis.environments.summaries.judge import Unscored
from precis.observe import sender
from precis.observe.observers import Observers, observing, services
from precis.observe.rollouts import RolloutRecord, records_of
from precis.observe.samples import sample_table
from precis.observe.wandb import wandb_log
from precis.records.rollout import Call, Json, Rollout, Score
from precis.records.spend import Usage
from tests.security.hostile import MIB, dripping, endless, hostile, quoting
from tests.security.test_replies import CUT_SHORT, KEY, LAST_FOUR
from tests.support.local_server import serving
from tests.support.rollouts import DOCUMENT, SCENARIO, rollouts

START: Json = {"role": "user", "content": "Where is it?"}
PLAY = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
ASKED = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at":"N"}'}}
CALLING: Json = {"role": "assistant", "content": None, "tool_calls": [ASKED]}
RESULT: Json = {"role": "tool", "tool_call_id": "c1", "content": "A mill."}


def _call(asked_at: float, message: Json, *messages: Json) -> Call:
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    usage = Usage(40, 3)
    return Call(
        messages, choice, tools=(PLAY,), usage=usage, usd=0.001, seconds=0.25, asked_at=asked_at
    )


SEEN = RolloutRecord(
    id="0123456789abcdef0123456789abcdef",
    run="run-1",
    model="m@4",
    parameters={"temperature": 0.0},
    calls=(
        _call(1_800_000_000.25, CALLING, START),
        _call(1_800_000_001.0, {"role": "assistant", "content": "North."}, START, CALLING, RESULT),
    ),
    scores={"reward": 0.75, "turns": 2.0},
    notes={"split": "train", "step": "4", "scenario": "d"},
)


def variables(**given: str) -> Variables:
    # No project of Weave but a given one, whatever the shell has; its keys are gone already.
    return Variables.model_validate({"weave_project": None, **given})


class Endpoint:
    """Records what it is posted, by path, and answers as `answer` says."""

    def __init__(self) -> None:
        self.got: list[tuple[str, dict[str, str], Any]] = []
        self.answer: Callable[[Request], Awaitable[Response]] = self.accept
        self.released = asyncio.Event()
        self.url = ""

    async def __call__(self, request: Request) -> Response:
        self.got.append((request.url.path, dict(request.headers), await request.json()))
        return await self.answer(request)

    async def accept(self, request: Request) -> Response:
        return JSONResponse({})

    async def fail(self, request: Request) -> Response:
        return JSONResponse({"error": "down for today"}, 400)

    async def hang(self, request: Request) -> Response:
        await self.released.wait()
        return JSONResponse({})


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    endpoint = Endpoint()

    async def serve(request: Request) -> Response:
        return await endpoint(request)

    route = Route("/{path:path}", serve, methods=["POST"])
    async with serving(Starlette(routes=[route])) as endpoint.url:
        yield endpoint


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


async def told(settings: Variables, *seen: RolloutRecord) -> None:
    async with observing(settings) as observers:
        observers.rollouts(seen)


def test_nobody_is_told_without_a_key() -> None:
    assert services(variables()) == []
    assert services(variables(wandb_api_key="k")) == [], "Weave wants a project too"
    assert services(variables(langfuse_public_key="k")) == []


async def test_openpipe_gets_each_call_as_a_report(endpoint: Endpoint) -> None:
    settings = variables(openpipe_api_key="opk-secret", openpipe_base_url=f"{endpoint.url}/api/v1")
    await told(settings, SEEN)
    assert [path for path, _, _ in endpoint.got] == ["/api/v1/report"] * 2
    (_, headers, first), (_, _, last) = endpoint.got
    assert headers["authorization"] == "Bearer opk-secret"
    assert (first["requestedAt"], first["receivedAt"]) == (1_800_000_000_250, 1_800_000_000_500)
    assert first["reqPayload"] == {
        "model": "m@4",
        "messages": [START],
        "tools": [PLAY],
        "temperature": 0.0,
    }
    assert first["respPayload"]["choices"][0]["message"]["tool_calls"] == [ASKED]
    assert last["reqPayload"]["messages"] == [START, CALLING, RESULT]
    assert last["respPayload"]["choices"][0]["message"]["content"] == "North."
    assert last["respPayload"]["usage"]["total_tokens"] == 43
    assert last["statusCode"] == 200
    for report in (first, last):
        assert all(isinstance(value, str) for value in report["metadata"].values())
        assert report["metadata"]["rollout"] == SEEN.id
        assert report["metadata"]["score.reward"] == "0.75"
    assert first["metadata"]["id"] != last["metadata"]["id"]


async def test_langfuse_gets_a_trace_with_calls_and_scores(endpoint: Endpoint) -> None:
    settings = variables(
        langfuse_public_key="pk-lf", langfuse_secret_key="sk-lf", LANGFUSE_HOST=endpoint.url
    )
    await told(settings, SEEN)
    (path, headers, sent), *scores = endpoint.got
    assert path == "/api/public/otel/v1/traces"
    assert headers["authorization"] == basic("pk-lf", "sk-lf")
    assert headers["x-langfuse-ingestion-version"] == "4"
    root, *turns = sent["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert [span["traceId"] for span in (root, *turns)] == [SEEN.id] * 3
    assert [span["parentSpanId"] for span in turns] == [root["spanId"]] * 2
    assert len({span["spanId"] for span in (root, *turns)}) == 3 and len(root["spanId"]) == 16
    assert root["startTimeUnixNano"] == turns[0]["startTimeUnixNano"] == "1800000000250000000"
    assert root["endTimeUnixNano"] == turns[1]["endTimeUnixNano"] == "1800000001250000000"
    whole, first, last = map(attributes, (root, *turns))
    assert whole["langfuse.trace.metadata.scenario"] == "d"
    conversation = [START, CALLING, RESULT, {"role": "assistant", "content": "North."}]
    assert json.loads(whole["langfuse.observation.output"]) == conversation
    assert first["langfuse.observation.type"] == last["langfuse.observation.type"] == "generation"
    assert json.loads(first["langfuse.observation.output"]) == CALLING
    assert json.loads(last["langfuse.observation.input"]) == [START, CALLING, RESULT]
    assert last["langfuse.observation.output"] == "North."
    assert json.loads(last["langfuse.observation.usage_details"]) == {"input": 40, "output": 3}
    assert json.loads(first["langfuse.observation.model.parameters"])["tools"] == [PLAY]
    assert [path for path, _, _ in scores] == ["/api/public/scores"] * 2
    assert scores[0][2] == {
        "id": f"{SEEN.id}-reward",
        "traceId": SEEN.id,
        "observationId": SEEN.id[:16],
        "name": "reward",
        "value": 0.75,
        "dataType": "NUMERIC",
    }


def attributes(span: dict[str, Any]) -> dict[str, Any]:
    return {each["key"]: each["value"].get("stringValue") for each in span["attributes"]}


async def test_weave_gets_the_rollout_with_its_calls_within(endpoint: Endpoint) -> None:
    settings = variables(
        wandb_api_key="wb-key", weave_project="team/precis", WF_TRACE_SERVER_URL=endpoint.url
    )
    await told(settings, SEEN)
    ((path, headers, sent),) = endpoint.got
    assert path == "/v2/team/precis/calls/complete"
    assert headers["authorization"] == basic("api", "wb-key")
    whole, first, last = sent["batch"]
    wanted = {"id", "project_id", "trace_id", "op_name", "started_at", "ended_at", "attributes"}
    for call in sent["batch"]:
        assert wanted | {"inputs", "summary", "output"} <= call.keys()
        assert call["trace_id"] == whole["id"] == SEEN.id
    assert (first["parent_id"], last["parent_id"]) == (SEEN.id, SEEN.id)
    assert whole["started_at"] == "2027-01-15T08:00:00.250000+00:00"
    assert whole["output"]["scores"] == {"reward": 0.75, "turns": 2.0}
    assert whole["output"]["conversation"][1:3] == [CALLING, RESULT]
    assert first["output"]["message"]["tool_calls"] == [ASKED]
    assert last["inputs"]["messages"] == [START, CALLING, RESULT]
    assert last["summary"]["usage"]["m@4"]["total_tokens"] == 43


def test_wandb_s_table_has_whole_conversations_and_the_beginning_of_a_scenario() -> None:
    document = {"role": "user", "content": "x" * 5000}
    first, last = (replace(one, messages=(document, *one.messages)) for one in SEEN.calls)
    played = Rollout(SCENARIO, 0, (first, last), Score(0.5, metrics={"turns": 2}))
    columns, ((*_, text, conversation),) = sample_table([[played]])
    assert columns == ("scenario", "reward", "turns", "why", "text", "conversation")
    assert text == "North."
    assert conversation.split("\n") == [
        f"user: {'x' * 2000}…",
        "user: Where is it?",
        "assistant:",
        '  calls look({"at":"N"})',
        "tool: A mill.",
        "assistant: North.",
    ]


async def test_a_service_that_refuses_is_told_of_once_and_stops_nothing(
    endpoint: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint.answer = endpoint.fail
    settings = variables(openpipe_api_key="opk-secret", openpipe_base_url=endpoint.url)
    with caplog.at_level(logging.WARNING, "precis.observe"):
        await told(settings, *[SEEN] * 120)
    first, last = (record.getMessage() for record in caplog.records)
    assert "OpenPipe does not take all rollouts: it answered 400" in first
    assert last == "OpenPipe did not receive 120 of 120 rollouts."
    assert "opk-secret" not in caplog.text


@pytest.mark.parametrize(
    ("url", "key", "said"),
    [
        ("https://openpipe.ai:http", "opk-secret", "its address is not valid (Invalid port: 'htt"),
        ("http://127.0.0.1:9", "opk-sécret", "its key holds characters that no key has"),
    ],
)
async def test_an_address_or_a_key_that_is_not_valid_gets_a_sentence(
    url: str, key: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    await told(variables(openpipe_api_key=key, openpipe_base_url=url), SEEN)
    assert said in caplog.text
    assert "OpenPipe did not receive 1 of 1 rollouts" in caplog.text


async def test_half_a_character_stops_no_service(endpoint: Endpoint) -> None:
    keys = dict.fromkeys(("openpipe_api_key", "langfuse_public_key", "langfuse_secret_key"), "k")
    settings = variables(**keys, openpipe_base_url=endpoint.url, LANGFUSE_HOST=endpoint.url)
    half = replace(SEEN.calls[0], choice={"message": {"role": "assistant", "content": "\ud83d"}})
    await told(settings, replace(SEEN, calls=(half,)), SEEN)
    paths = [path for path, _, _ in endpoint.got]
    assert paths.count("/report") == 3
    assert paths.count("/api/public/scores") == 4


async def test_a_slow_service_delays_nothing_and_the_end_is_bounded(
    endpoint: Endpoint, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "_QUEUE_MAX", 10)
    monkeypatch.setattr(sender, "_DEADLINE_S", 3600.0)
    endpoint.answer = endpoint.hang
    settings = variables(openpipe_api_key="k", openpipe_base_url=endpoint.url)
    observers = Observers([sender.Sender(services(settings)[0])])
    observers.rollouts([SEEN] * 200)
    await asyncio.to_thread(observers.close, 0.2)
    endpoint.released.set()
    assert "it takes them slower than they come" in caplog.text
    assert "OpenPipe did not receive" in caplog.text


async def test_an_answer_without_end_is_not_read(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender, "_TRIES", 1)
    async with hostile(endless) as server:
        await told(variables(openpipe_api_key=KEY, openpipe_base_url=server.url), SEEN)
    assert server.keys == [KEY]
    assert server.sent < 32 * MIB
    first, last = caplog.messages
    assert "The reply is larger than" in first
    assert "did not receive 1 of 1 rollouts" in last
    monkeypatch.setattr(sender, "_DEADLINE_S", 0.5)
    async with dripping() as url:
        await told(variables(openpipe_api_key=KEY, openpipe_base_url=url), SEEN)
    assert "no whole answer within 0.5 s" in caplog.text


@pytest.mark.parametrize(
    ("address", "keys"),
    [
        ("openpipe_base_url", {"openpipe_api_key": KEY}),
        ("LANGFUSE_HOST", {"langfuse_public_key": "pk-lf-3b1c5d", "langfuse_secret_key": KEY}),
        ("WF_TRACE_SERVER_URL", {"wandb_api_key": KEY, "weave_project": "entity/project"}),
    ],
)
@pytest.mark.parametrize("quoted", ["{authorization}", KEY, CUT_SHORT[0]])
async def test_a_key_that_is_quoted_is_not_logged(
    address: str, keys: dict[str, str], quoted: str, caplog: pytest.LogCaptureFixture
) -> None:
    answer = quoting(400, lambda sent: quoted.format(last=LAST_FOUR, authorization=sent))
    async with hostile(answer) as server:
        await told(variables(**keys, **{address: server.url.removesuffix("/v1")}), SEEN)
    assert "does not take all rollouts: it answered 400" in caplog.text
    sent = server.keys[0].removeprefix("Basic ")
    for secret in (KEY, sent, LAST_FOUR, "sk-o"):
        assert secret not in caplog.text


def test_a_rollout_is_seen_with_its_verdict_or_without_one() -> None:
    def told(group: list[Rollout], step: int) -> list[RolloutRecord]:
        return list(records_of(group, "r", "m@4", {"split": "train", "step": str(step)}))

    scored, unscored = told(rollouts(True, Unscored("timeout", "late")), step=4)
    assert scored.scores == {"reward": 1.0, "words": 2, "prose": 1, "correct": 1, "asked": 1}
    assert unscored.scores == {} and unscored.notes["unscored"] == "timeout"
    assert scored.notes["scenario"] == DOCUMENT.id and scored.id != unscored.id
    (own,) = told(rollouts(Score(0.5, metrics={"reward": 7.0})), step=5)
    assert own.scores == {"reward": 0.5}, "an agent's metric may have any name"
    assert scored.calls[0].messages[1]["content"].count(DOCUMENT.text) == 1
    # With `off_policy_steps` two steps can be sampled from one adapter, of the same document.
    (first,), (second,), (again,) = (told(rollouts(True), step) for step in (0, 1, 1))
    assert first.id != second.id == again.id


async def test_the_warnings_of_a_service_come_from_within_the_run(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    run: ContextVar[str] = ContextVar("run", default="none")
    run.set("this")
    warned_in: list[str] = []
    monkeypatch.setattr(sender.logger, "warning", lambda *_: warned_in.append(run.get()))
    endpoint.answer = endpoint.fail
    await told(variables(openpipe_api_key="opk-secret", openpipe_base_url=endpoint.url), SEEN)
    assert warned_in == ["this"] * 2


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_why_wandb_has_ended_is_said_once_without_its_key(
    is_deleted: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    output = tmp_path / "wandb.log"
    output.write_text("OSError: of the run before\n")
    (tmp_path / "wandb.py").write_text(f"import sys\nsys.exit('\\x1b[1mNo project for {KEY}.')")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *sys.path]))
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    monkeypatch.setenv("WANDB_MODE", "offline")
    async with wandb_log("m", "id1", {}, tmp_path) as log:
        assert log is not None
        await log._child.process.wait()
        if is_deleted:
            output.unlink()
        log.log(0, {})
    cause = "It printed nothing" if is_deleted else "No project for …"
    [said] = caplog.messages
    assert said.startswith(f"W&B has ended: {cause}. The run continues")
