"""What a web page, another program's guess and another user can do with a server that we start."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from tests.services.browser import chromium_page, log_in
from tests.services.conftest import ROOT, Precis
from tests.services.patience import patience_s, wait_until
from tests.services.prefect_api import client_of
from tests.support.local_server import served

SECRET = "canary-in-a-block-91d3c0"

ATTACK = """async ({api, flow}) => {
    const script = {'prefect.deployments.steps.run_shell_script': {script: 'touch /tmp/owned'}};
    const told = {};
    const send = async (name, path, body, options) => {
        const json = JSON.stringify(body);
        // A body without a type needs no preflight: the browser sends it to whoever it likes.
        const untyped = new Blob([json]);
        const request = {method: 'POST', body: options.typed ? json : untyped, mode: options.mode};
        if (options.typed) request.headers = {'Content-Type': 'application/json'};
        try {
            const answer = await fetch(api + path, request);
            told[name] = answer.status + ' ' + await answer.text();
        } catch (error) { told[name] = String(error); }
    };
    for (const typed of [true, false]) for (const mode of ['cors', 'no-cors']) {
        const kind = `${mode} ${typed ? 'typed' : 'untyped'}`;
        const options = {typed, mode};
        await send(`flow ${kind}`, '/flows/', {name: `attack ${kind}`}, options);
        const deployment = {name: `attack ${kind}`, flow_id: flow, pull_steps: [script]};
        await send(`deployment ${kind}`, '/deployments/', deployment, options);
        await send(`variable ${kind}`, '/variables/', {name: 'attack', value: 1}, options);
        await send(`blocks ${kind}`, '/block_documents/filter', {include_secrets: true}, options);
    }
    told.events = await new Promise(resolve => {
        const socket = new WebSocket(api.replace('http', 'ws') + '/events/out', 'prefect');
        socket.onopen = () => socket.send(JSON.stringify({type: 'auth', token: null}));
        socket.onmessage = message => resolve(message.data);
        socket.onclose = socket.onerror = () => resolve('closed');
    });
    return told;
}"""


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Precis]:
    """A server that nobody was asked a password for, with a secret in it."""
    precis = Precis(tmp_path_factory.mktemp("fresh"))
    for name in ("PREFECT_SERVER_API_AUTH_STRING", "PREFECT_API_AUTH_STRING"):
        del precis.environment[name]
    try:
        precis.serve()
        with trusted(precis) as api:
            keep_secret(api)
        yield precis
    finally:
        precis.run("stop")


def keep_secret(api: httpx.Client) -> None:
    """Make a Secret block, as Prefect's own client does."""
    kind = api.get("/block_types/slug/secret").raise_for_status().json()["id"]
    of_kind = {"block_schemas": {"block_type_id": {"any_": [kind]}}}
    schema = api.post("/block_schemas/filter", json=of_kind).raise_for_status().json()[0]["id"]
    block = {"name": "precis-openai-api-key", "data": {"value": SECRET}}
    block |= {"block_type_id": kind, "block_schema_id": schema}
    api.post("/block_documents/", json=block).raise_for_status()


def password_of(precis: Precis) -> str:
    return (precis.home / "prefect" / "password").read_text()


def trusted(precis: Precis) -> httpx.Client:
    user, _, password = password_of(precis).partition(":")
    return client_of(precis.api, auth=(user, password))


async def test_a_page_on_another_origin_makes_nothing_and_reads_nothing(fresh: Precis) -> None:
    with trusted(fresh) as api, served(HTMLResponse("<title>Prize draw</title>")) as another:
        flow = api.post("/flows/", json={"name": "harmless"}).raise_for_status().json()["id"]
        async with chromium_page() as page:
            await log_in(page, fresh.api.removesuffix("/api"), password_of(fresh))
            await page.goto(another.replace("127.0.0.1", "localhost") + "/")
            told: dict[str, str] = await page.evaluate(ATTACK, {"api": fresh.api, "flow": flow})
        flows = api.post("/flows/filter", json={}).raise_for_status().json()
        deployments = api.post("/deployments/filter", json={}).raise_for_status().json()
        variables = api.post("/variables/filter", json={}).raise_for_status().json()
        blocks = api.post("/block_documents/filter", json={"include_secrets": True})
    assert SECRET in blocks.text, "there was nothing to read"
    assert SECRET not in json.dumps(told)
    assert [flow["name"] for flow in flows] == ["harmless"]
    assert deployments == variables == []
    assert "auth_success" not in told["events"]
    assert len(told) == 17, told


def test_without_the_password_nothing_is_answered(fresh: Precis) -> None:
    password = password_of(fresh)
    user, _, secret = password.partition(":")
    assert len(secret) >= 32
    ask: dict[str, Any] = {"url": f"{fresh.api}/flows/count", "json": {}, "timeout": patience_s()}
    assert httpx.post(**ask).status_code == 401
    assert httpx.post(**ask, auth=(user, secret[:-1])).status_code == 401
    assert httpx.post(**ask, auth=(user, secret)).status_code == 200


def test_what_is_open_is_what_the_documentation_says(fresh: Precis) -> None:
    """And whatever it is, no page of another site shows it in a frame."""
    user, _, secret = password_of(fresh).partition(":")
    server = fresh.api.removesuffix("/api")
    said = (ROOT / "docs/security.md").read_text()
    for path in ("/api/health", "/api/ready", "/ui-settings", "/"):
        assert _ask_unframed(f"{server}{path}") == 200, path
        assert f"`{path}`" in said or path == "/", path
    for path in (
        "/docs",
        "/redoc",
        "/openapi.json",
        "/docs/oauth2-redirect",
        "/api/docs",
        "/api/openapi.json",
        "/api/version",
        "/api/admin/settings",
    ):
        assert _ask_unframed(f"{server}{path}") == 401, path
    for path in ("/docs", "/api/version"):
        assert _ask_unframed(f"{server}{path}", auth=(user, secret)) == 200, path


def _ask_unframed(url: str, **options: Any) -> int:
    answer = httpx.get(url, follow_redirects=True, timeout=patience_s(), **options)
    assert answer.headers["content-security-policy"] == "frame-ancestors 'self'"
    assert answer.headers["x-frame-options"] == "SAMEORIGIN"
    return answer.status_code


def test_no_other_origin_is_allowed_and_no_other_name_is_answered_to(fresh: Precis) -> None:
    answer = httpx.get(
        f"{fresh.api}/health", headers={"Origin": "http://prize.example"}, timeout=patience_s()
    )
    assert "access-control-allow-origin" not in answer.headers
    for host, status in (("localhost", 200), ("127.0.0.1:1", 200), ("prize.example", 400)):
        answer = httpx.get(f"{fresh.api}/health", headers={"Host": host}, timeout=patience_s())
        assert answer.status_code == status, host


def test_the_password_is_for_the_owner_of_the_home_and_its_commands_alone(fresh: Precis) -> None:
    assert (fresh.home / "prefect" / "password").stat().st_mode & 0o777 == 0o600
    assert fresh.run("runs") == "Nothing runs, and nothing waits.\n"


def test_our_password_goes_to_our_server_alone(fresh: Precis) -> None:
    """Another that is configured is not told what ours asks for."""
    heard: list[str | None] = []

    async def refuse(request: Request) -> Response:
        heard.append(request.headers.get("authorization"))
        return Response(status_code=401)

    with served(Starlette(routes=[Route("/{path:path}", refuse)])) as url:
        output, code = fresh.outcome("worker", PREFECT_API_URL=f"{url}/api")
    assert heard == [None]
    assert code == 1 and "refuses our password" in " ".join(output.split())


def test_an_automation_runs_a_deployment(fresh: Precis) -> None:
    """Prefect's server does so as a client of itself, by a name that nobody else may use. The runs
    stay, so this test is the last."""
    name = str(uuid4())
    with trusted(fresh) as api:

        def make(path: str, **body: Any) -> str:
            return str(api.post(path, json=body).raise_for_status().json()["id"])

        deployment = make("/deployments/", name=name, flow_id=make("/flows/", name=name))
        trigger = {"type": "event", "posture": "Reactive", "expect": [name], "threshold": 1}
        action = {"type": "run-deployment", "source": "selected", "deployment_id": deployment}
        make("/automations/", name=name, trigger={**trigger, "within": 0}, actions=[action])

        def runs() -> Any:
            resource = {"prefect.resource.id": "precis.test"}
            happened = {"id": str(uuid4()), "occurred": datetime.now(UTC).isoformat()}
            event = {**happened, "event": name, "resource": resource}
            api.post("/events", json=[event]).raise_for_status()
            named = {"deployments": {"id": {"any_": [deployment]}}}
            return api.post("/flow_runs/filter", json=named).raise_for_status().json()

        wait_until(runs, "the run that the automation makes", pause_s=0.5)
