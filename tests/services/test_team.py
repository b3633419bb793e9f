"""The set-up for a team as compose.yaml describes it, without containers: a server on a real
PostgreSQL, shared by password, with its automations, and a worker. One server for all of it, since
starting it takes longest."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from precis.processes.child import free_port
from tests.services.conftest import ROOT, Precis, Up
from tests.services.patience import patience_s, wait_until
from tests.services.postgres_server import binaries, dump, postgres
from tests.services.prefect_api import client_of, created, reached
from tests.support.local_server import served

pytestmark = pytest.mark.long  # PostgreSQL, server and worker are started for it, and restarted

PASSWORD = "ana:correct-horse-battery"
CANARIES = {
    name: f"canary-{name.lower()}-5f2c81"
    for name in (
        *("OPENROUTER_API_KEY", "GEMINI_API_KEY", "JUDGE_API_KEY"),
        *("TINKER_API_KEY", "AWS_SECRET_ACCESS_KEY"),
    )
}
SMALL: dict[str, Any] = {
    "documents": {"source": "bundled", "train_size": 40, "val_size": 4},
    "rollouts": {"groups_per_step": 2, "rollouts_per_group": 4},
}
STEPS = 8
NOTICED_AFTER_S = 270
"""Five minutes without heartbeat, of which up to 30 s had passed when the run was killed."""


@dataclass
class Team:
    """A shared server with a worker, and what was sent to its channel of notifications."""

    precis: Precis
    up: Up
    api: httpx.Client
    database: str
    notified: list[str]

    def eventually_notified(self, *words: str) -> str:
        """The notification with these words, once it is there."""

        def found() -> str:
            matching = (text for text in self.notified if all(word in text for word in words))
            return next(matching, "")

        return wait_until(found, f"a notification with {words}", told=lambda: self.notified)


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    folder = tmp_path_factory.mktemp("team")
    arrived: list[str] = []

    async def take(request: Request) -> Response:
        arrived.append((await request.body()).decode())
        return Response()

    channel = Starlette(routes=[Route("/", take, methods=["POST"])])
    address = f"127.0.0.1:{free_port()}"
    data = free_port()
    image, services = read_set_up(folder, address, data)
    database, worker = services["database"]["environment"], services["worker"]
    assert worker["command"] == ["precis", "up", "--automations"]
    assert [file["path"] for file in worker["env_file"]] == ["../.env"]
    precis = Precis(folder / ".precis")
    del precis.environment["PREFECT_SERVER_API_AUTH_STRING"]
    # What a team writes into `.env`.
    precis.environment |= {"PRECIS_STORE": f"{folder}/store", **CANARIES}
    precis.environment |= image | worker["environment"]
    for volume in (*services["server"]["volumes"], *worker["volumes"]):
        Path(volume.partition(":")[2]).mkdir()
    assert database["POSTGRES_USER"] == "precis"
    made = (database["POSTGRES_DB"], database["POSTGRES_PASSWORD"], data)
    with postgres(*made) as kept, served(channel) as url, (folder / "server.log").open("w") as log:
        as_apprise_writes_it = f"{url.replace('http', 'json')}/"
        precis.environment["PRECIS_NOTIFY_URL"] = as_apprise_writes_it
        wait_until_healthy(services["database"], precis)
        command, given = services["server"]["command"], services["server"]["environment"]
        environment = {**os.environ, **image, **given}
        server = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
        try:
            wait_until_healthy(services["server"], precis)
            up = Up(precis, precis.home / "up.txt", "--automations")
            up.prints("Ctrl-C waits")
            wait_until_healthy(worker, precis)
            user, _, password = PASSWORD.partition(":")
            with client_of(precis.api, auth=(user, password)) as api:
                team = Team(precis, up, api, kept, arrived)
                yield team
                ended = team.up.ends(signal.SIGTERM)
        finally:
            server.terminate()
            server.wait(patience_s())
        assert ended == 0


def read_set_up(folder: Path, server: str, database: int) -> tuple[dict[str, str], dict[str, Any]]:
    """The environment of the image, and the services of compose.yaml.

    Addresses of this machine stand in for the names of services, a folder for the image's /precis.
    """
    port = server.rpartition(":")[2]
    places = {
        "4200": port,
        f"server:{port}": server,
        "@database/": f"@127.0.0.1:{database}/",
        "/precis/": f"{folder}/",
    }
    given = {"POSTGRES_PASSWORD": "correcthorse", "PREFECT_SERVER_API_AUTH_STRING": PASSWORD}

    def read(name: str) -> str:
        text = (ROOT / "deployments" / name).read_text()
        for place, ours in places.items():
            text = text.replace(place, ours)
        pattern = r"\$\{(\w+)(?::[?-]([^}]*))?\}"
        return re.sub(pattern, lambda found: given.get(found[1]) or found[2] or "", text)

    (line,) = re.findall(r"^ENV (.*)", read("Dockerfile"), re.MULTILINE)
    image = dict(re.findall(r"(\S+)=(\S+)", line))
    image["PATH"] = image["PATH"].replace("$PATH", f"{binaries()}:{os.environ['PATH']}")
    image |= {"PGHOST": "127.0.0.1", "PGPORT": str(database), "PYTHONPATH": str(ROOT)}
    (folder / ".venv").symlink_to(sys.prefix)
    return image, yaml.safe_load(read("compose.yaml"))["services"]


def wait_until_healthy(service: dict[str, Any], precis: Precis) -> None:
    """Ask by the service's own check."""
    kind, *check = service["healthcheck"]["test"]
    assert kind == "CMD"

    def is_healthy() -> bool:
        return subprocess.run(check, cwd=ROOT, env=precis.environment).returncode == 0

    wait_until(is_healthy, f"the health that {check} sees", pause_s=1.0)


def test_the_server_asks_for_the_password(team: Team) -> None:
    with httpx.Client(timeout=patience_s()) as http:
        assert http.get(f"{team.precis.api}/flows/count").status_code == 401
        assert http.get(f"{team.precis.api}/health").is_success
        page = team.precis.api.removesuffix("/api")
        assert http.get(f"{page}/ui-settings").json()["api_url"] == "/api"


def _automations(api: httpx.Client) -> dict[str, tuple[str, str]]:
    """By name, the id of each and when it was changed."""
    found = api.post("/automations/filter", json={}).raise_for_status().json()
    assert all(each["enabled"] for each in found)
    return {each["name"]: (each["id"], each["updated"]) for each in found}


def test_what_happens_is_told(team: Team) -> None:
    _fail(team, "benchmark nobody", {"type": "FAILED", "message": "There is nobody."})
    told = team.eventually_notified("benchmark nobody is Failed")
    assert "There is nobody." in told and "/runs/flow-run/" in told
    event = {
        "occurred": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "event": "precis.benchmark.regression",
        "resource": {"prefect.resource.id": "precis.model.m", "prefect.resource.name": "m"},
        "payload": {
            "model": "m",
            "message": "Worse than on the benchmark before: gpt-4o lost 12 points.",
            "report": "s3://bucket/m/benchmarks/0030/report.html",
        },
        "id": "00000000-0000-4000-8000-000000000001",
    }
    assert team.api.post("/events", json=[event]).status_code == 204
    told = team.eventually_notified("the benchmark of m has got worse")
    assert "gpt-4o lost 12 points" in told and "report.html" in told
    # By the state's name, which test_flow.py has of a run that reaches its budget.
    spent = {"type": "FAILED", "name": "BudgetReached", "message": "Raise budget_usd."}
    _fail(team, "train spent", spent)
    told = team.eventually_notified("train spent", "has reached its budget")
    assert "Raise budget_usd." in told


def _fail(team: Team, name: str, state: dict[str, str]) -> None:
    """Have a run of ours get into a state, as its process would."""
    flow = team.api.post("/flows/", json={"name": "train"}).raise_for_status().json()["id"]
    made = {"flow_id": flow, "name": name, "tags": ["precis"]}
    run = team.api.post("/flow_runs/", json=made).raise_for_status().json()["id"]
    team.api.post(f"/flow_runs/{run}/set_state", json={"state": state}).raise_for_status()


def test_a_run_that_dies_with_its_machine_is_retried_and_benchmarked(team: Team) -> None:
    config = {**SMALL, "model": "lost", "steps": STEPS, "benchmark": False}
    model = team.precis.home.parent / "store" / "lost"
    run = created(team.api, "train/rehearsal", config)
    wait_until((model / "ledger.json").exists, "the run's ledger")
    killed = datetime.now(UTC)
    _kill_all_of(team)
    _restart_worker(team)
    crashed = reached(team.api, run, "CRASHED")
    assert "No heartbeat for five minutes" in crashed["state"]["message"]
    at = datetime.fromisoformat(crashed["state"]["timestamp"])
    assert (at - killed).total_seconds() > NOTICED_AFTER_S
    team.eventually_notified(f"train lost to step {STEPS} is Crashed", "No heartbeat")
    done = len(json.loads((model / "ledger.json").read_text())["steps"])
    assert done < STEPS
    team.precis.prefect("flow-run", "retry", run)
    assert reached(team.api, run, "COMPLETED", "FAILED")["state_type"] == "COMPLETED"
    ledger = json.loads((model / "ledger.json").read_text())
    assert [step["step"] for step in ledger["steps"]] == list(range(STEPS))
    (found,) = wait_until(
        lambda: _benchmarks_of(team, "lost"), "the benchmark of what was trained", pause_s=0.3
    )
    reached(team.api, found["id"], "COMPLETED")
    assert (model / "benchmarks" / f"{STEPS:04d}" / "report.html").exists()


def _kill_all_of(team: Team) -> None:
    """Kill the worker, its run, and all they started, at once: as a lost machine does."""
    doomed = [team.up.process.pid]
    doomed += [one.pid for one in team.precis.processes("prefect.engine", "supervisor")]
    for pid in doomed:
        os.kill(pid, signal.SIGSTOP)  # so that none hears of another's end
    for pid in doomed:
        os.kill(pid, signal.SIGKILL)
    team.up.process.wait(patience_s())


def _restart_worker(team: Team) -> None:
    """`precis up` again: it finds the server of the one that was killed, with its automations."""
    before = _automations(team.api)
    assert len(before) == 5
    team.up = Up(team.precis, team.precis.home / "up-again.txt", "--automations")
    team.up.prints("Ctrl-C waits")
    assert _automations(team.api) == before, "they are there, and were not left alone"


def _benchmarks_of(team: Team, model: str) -> list[dict[str, Any]]:
    query = {"flows": {"name": {"any_": ["benchmark"]}}, "sort": "START_TIME_DESC"}
    found: list[dict[str, Any]] = team.api.post("/flow_runs/filter", json=query).json()
    runs = [run for run in found if run["state_type"] != "SCHEDULED"]
    return [run for run in runs if run["parameters"].get("config", {}).get("model") == model]


def test_a_key_in_a_secret_block_reaches_a_run_and_is_kept_encrypted(team: Team) -> None:
    canary = "canary-in-a-block-77b1f0"
    environment = {"PREFECT_API_URL": team.precis.api, "OPENAI_API_KEY": ""}
    kept = team.precis.run("secret", "OPENAI_API_KEY", given=canary, **environment)
    assert "'precis-openai-api-key'" in kept
    look = (
        "import asyncio, os; from tasks.secrets import adopt_secrets;"
        "print(asyncio.run(adopt_secrets()), os.environ['OPENAI_API_KEY'])"
    )
    found = team.precis.python("-c", look, **environment)
    assert found.split("\n")[-2] == f"['OPENAI_API_KEY'] {canary}"
    assert canary not in dump(team.database)


def test_no_key_gets_into_the_database_or_a_log(team: Team) -> None:
    """After the runs above, whose environment held them all."""
    data = dump(team.database)
    assert "train lost to step" in data, "the dump holds no runs"
    logs = "".join(path.read_text() for path in team.precis.home.parent.rglob("*.log"))
    assert "Beginning flow run" in logs
    for name, canary in CANARIES.items():
        assert canary not in data, f"{name} is in Prefect's database"
        assert canary not in logs, f"{name} is in a log"
    assert PASSWORD.partition(":")[2] not in data
