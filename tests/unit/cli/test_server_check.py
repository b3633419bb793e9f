"""The check of a Prefect server, or of Prefect Cloud, with the password or the key for it; and
commands that a server fails."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prefect.client.schemas.objects import FlowRun, State
from prefect.settings import (
    PREFECT_API_SSL_CERT_FILE,
    PREFECT_API_URL,
    PREFECT_CLOUD_API_URL,
    temporary_settings,
)
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from typer.testing import CliRunner

from cli import live_runs, prefect_server
from cli.deletion import delete_from_prefect
from cli.prefect_server import PrefectServer
from cli.server_check import check_server
from precis.commands.main import app
from precis.errors import ConfigError, PrecisError
from tests.support.local_server import served

KEY = "pnu_a-key-of-cloud"
WORKSPACE = "/api/accounts/7f/workspaces/3a"
BASIC = "Basic YW5hOnNlY3JldA=="
BEARER = f"Bearer {KEY}"
ID = "3b0fd2f3-f55f-491c-9362-ae6cdcef02d7"


@contextmanager
def answering(answer: Callable[[Request, bytes], Response]) -> Iterator[tuple[str, list[str]]]:
    """A server; its address, and the passwords and keys that it was shown."""
    shown: list[str] = []

    async def note(request: Request) -> Response:
        shown.append(request.headers.get("authorization", ""))
        return answer(request, await request.body())

    every = Route("/{path:path}", note, methods=["GET", "POST"])
    with served(Starlette(routes=[every])) as address:
        yield address, shown


@contextmanager
def server(status: int, body: bytes = b'"3.9.1"') -> Iterator[tuple[str, list[str]]]:
    """A server that answers everything alike."""
    with answering(lambda *_: Response(body, status)) as (address, shown):
        yield f"{address}/api", shown


@contextmanager
def cloud() -> Iterator[tuple[str, list[str]]]:
    """A server that speaks as Prefect Cloud does: a workspace's API, for the bearer of a key, with
    no page that tells a version."""
    pages = {f"{WORKSPACE}/health": b"true", f"{WORKSPACE}/flows/filter": b"[]"}

    def answer(request: Request, _: bytes) -> Response:
        if request.headers.get("authorization") != BEARER:
            return Response(b"{}", 401)
        page = pages.get(request.url.path)
        return Response(page or b"{}", 200 if page else 404)

    with (
        answering(answer) as (address, shown),
        temporary_settings({PREFECT_CLOUD_API_URL: f"{address}/api"}),
    ):
        yield f"{address}{WORKSPACE}", shown


@pytest.fixture(autouse=True)
def _nothing_configured(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Set first, so that what the check itself sets is taken back as well.
    for name in ("PREFECT_API_URL", "PREFECT_API_AUTH_STRING", "PREFECT_API_KEY"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))


async def test_a_server_that_answers_gets_our_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "ana:secret")
    with server(200) as (api, shown):
        assert await check_server(api) == f"server 3.9.1 at {api}"
        assert shown == [BASIC]
        assert not PrefectServer("http://127.0.0.1:9/api", ours=False).answers()
        assert PrefectServer(api, ours=False).answers()
        assert shown[1:] == shown[:1]
    monkeypatch.delenv("PREFECT_API_AUTH_STRING")
    with server(401) as (api, _), pytest.raises(ConfigError, match="PREFECT_API_AUTH_STRING"):
        await check_server(api)
    with pytest.raises(PrecisError, match=r"does not answer .*precis up"):
        await check_server(api)
    with server(500) as (api, _), pytest.raises(PrecisError, match="answered 500"):
        await check_server(api)
    for other in (b'"a page"', b"<html>", b"{}"):
        with server(200, other) as (api, _), pytest.raises(ConfigError, match="not a Prefect"):
            await check_server(api)


async def test_cloud_gets_our_key_and_not_our_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_SERVER_API_AUTH_STRING", "ana:secret")
    assert "precis up" in await prefect_server.check(), "no server is no problem"
    with cloud() as (workspace, shown):
        monkeypatch.setenv("PREFECT_API_URL", workspace)
        with pytest.raises(ConfigError, match="PREFECT_API_KEY"):
            await prefect_server.check()
        assert not PrefectServer(workspace, ours=False).answers()
        assert set(shown) == {""}
        monkeypatch.setenv("PREFECT_API_KEY", KEY)
        assert await prefect_server.check() == f"Prefect Cloud at {workspace}"
        assert PrefectServer(workspace, ours=False).answers()


@pytest.mark.parametrize(
    ("profile", "configured", "sent"),
    [
        ("cloud", "", BEARER),  # as a login has written it
        ("another workspace", "cloud", BEARER),
        ("cloud", "server", BASIC),
        ("server", "server", BEARER),
    ],
)
async def test_the_key_of_a_profile_goes_to_its_own_server_alone_and_to_each_workspace_of_cloud(
    profile: str, configured: str, sent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_SERVER_API_AUTH_STRING", "ana:secret")
    monkeypatch.setenv("PREFECT_PROFILE", "mine")
    with cloud() as (workspace, shown_to_cloud), server(200) as (api, shown):
        other = workspace.replace("/3a", "/4b")
        addresses = {"cloud": workspace, "another workspace": other, "server": api}
        (tmp_path / "profiles.toml").write_text(
            f'[profiles.mine]\nPREFECT_API_URL = "{addresses[profile]}/"\nPREFECT_API_KEY = "{KEY}"'
        )
        monkeypatch.setenv("PREFECT_API_URL", addresses.get(configured, ""))
        is_cloud = configured != "server"
        said = f"Prefect Cloud at {workspace}" if is_cloud else f"server 3.9.1 at {api}"
        assert await prefect_server.check() == said
        assert {*shown_to_cloud, *shown} == {sent}


async def test_certificates_that_can_not_be_read_are_named() -> None:
    with (
        temporary_settings({PREFECT_API_SSL_CERT_FILE: "/no/certificates.pem"}),
        pytest.raises(ConfigError, match=r"No secure connection .*SSL_CERT_FILE"),
    ):
        await check_server("https://prefect.example/api")


def test_what_the_server_failed_at_is_said_and_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(request: Request, sent: bytes) -> Response:
        if request.method == "GET":
            is_look = request.url.path in ("/api/admin/version", "/api/health")
            return Response(b'"3.9.1"', 200 if is_look else 404)
        return Response(b'{"exception_message": "Internal Server Error for %b"}' % sent, 500)

    key = "sk-or-v1-0123456789"
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "ana:secret")
    with answering(answer) as (address, _):
        api = f"{address}/api"
        monkeypatch.setenv("PREFECT_API_URL", api)
        # Prefect reads the environment when it is imported, which another test may have done.
        with temporary_settings({PREFECT_API_URL: api}):
            result = CliRunner().invoke(app, ["secret", "OPENROUTER_API_KEY"], input=f"{key}\n")
            with pytest.raises(PrecisError, match=r"did not list its runs: .*500"):
                asyncio.run(live_runs.read_live_runs(datetime.now(UTC)))
            with pytest.raises(PrecisError, match=r"did not delete the runs of 'm': .*500"):
                asyncio.run(delete_from_prefect("m", "store"))
    assert result.exit_code == 1
    said = " ".join(result.output.split())
    assert "did not keep OPENROUTER_API_KEY: it answered 500. See the server's log." in said
    assert key not in result.output


def run(**fields: object) -> FlowRun:
    return FlowRun.model_validate({"flow_id": ID, "name": "helpful-nautilus", **fields})


async def test_a_run_is_timed_in_its_state_and_a_waiting_one_from_its_start_or_retry() -> None:
    now = datetime.now(UTC)
    first, later = now - timedelta(hours=3), now - timedelta(minutes=1)
    running = {"type": "RUNNING", "timestamp": later}
    retried = run(start_time=first, expected_start_time=first, state=running)
    waiting = run(expected_start_time=later, state={"type": "SCHEDULED", "timestamp": first})
    # Prefect gives a run that waits for others of its deployment a new state every half minute.
    slot = {"type": "SCHEDULED", "name": "AwaitingConcurrencySlot", "timestamp": now}
    queued = run(expected_start_time=later, state=slot)
    queued_again = run(start_time=first, expected_start_time=first, state=slot)
    known = [slot, {**slot, "timestamp": later}, {"type": "FAILED", "timestamp": first}]

    async def read_flow_run_states(run_id: object) -> list[State[Any]]:
        return [State.model_validate(each) for each in known]

    client: Any = SimpleNamespace(read_flow_run_states=read_flow_run_states)
    for one in (retried, waiting, queued, queued_again):
        assert await live_runs._seconds(client, one, now) == 60


@pytest.mark.parametrize(
    "parameters", [{"model": "mine"}, {"config": {"model": "mine"}}, {"model": "mine", "config": 5}]
)
def test_a_run_that_has_not_begun_is_named_with_its_model(parameters: dict[str, object]) -> None:
    waiting = run(parameters=parameters, state_name="Late")
    told = live_runs._describe(waiting, "train/trial", 0.0)
    assert told.name == "helpful-nautilus (mine)"
    begun = run(parameters=parameters, name="train mine: step 1 of 9")
    assert live_runs._describe(begun, "train/trial", 0.0).name == begun.name
    assert live_runs._is_part(run(parent_task_run_id=ID))
    assert not live_runs._is_part(run(parent_task_run_id=ID, deployment_id=ID)), "a sweep's trial"
    assert not live_runs._is_part(begun)


def test_without_a_server_nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefect_server, "find", lambda: None)
    said = CliRunner().invoke(app, ["runs"])
    assert said.exit_code == 0
    assert said.output == "No Prefect server is configured or up, so nothing runs.\n"
    assert json.loads(CliRunner().invoke(app, ["runs", "--json"]).output) == []
