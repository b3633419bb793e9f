"""The deployments of `prefect.yaml` and their runs, where `precis up` is at work."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from precis.records.ledger import load_ledger
from precis.store import FolderStore
from tests.services.conftest import Precis
from tests.services.patience import wait_until
from tests.services.prefect_api import AUTH, cancel, client_of, reached

CONFIG: dict[str, Any] = {
    "model": "deployed",
    "steps": 1,
    "documents": {"source": "bundled", "train_size": 12, "val_size": 4},
    "rollouts": {"groups_per_step": 2, "rollouts_per_group": 4},
    "benchmark": False,
}


def test_the_nightly_benchmark_is_scheduled_and_leaves_a_late_night_out(deployed: Precis) -> None:
    with client_of(deployed.api) as api:
        nightly = api.get("/deployments/name/benchmark/nightly").raise_for_status().json()
        [schedule] = nightly["schedules"]
        assert schedule["active"]
        assert schedule["schedule"]["cron"] == "0 3 * * *"
        assert schedule["schedule"]["timezone"] == "Europe/Berlin"
        assert nightly["concurrency_options"]["collision_strategy"] == "CANCEL_NEW"
        of_it = {"deployments": {"id": {"any_": [nightly["id"]]}}}
        wait_until(lambda: runs(api, **of_it), "a night that the scheduler plans", pause_s=0.3)


def runs(api: httpx.Client, **query: Any) -> list[dict[str, Any]]:
    answer = api.post("/flow_runs/filter", json=query).raise_for_status()
    found: list[dict[str, Any]] = answer.json()
    return found


def test_a_retry_that_waits_is_cancelled_at_once(deployed: Precis) -> None:
    """Prefect would wait for an end of the process of the run's last try, which has ended."""
    later = {"type": "SCHEDULED", "state_details": {"scheduled_time": "2100-01-01T00:00:00Z"}}
    with client_of(deployed.api) as api:
        found = api.get("/deployments/name/train/rehearsal").raise_for_status().json()
        made = api.post(f"/deployments/{found['id']}/create_flow_run", json={"state": later})
        run = made.raise_for_status().json()["id"]
        api.patch(f"/flow_runs/{run}", json={"infrastructure_pid": "1"}).raise_for_status()
        cancel(api, run)
        assert api.get(f"/flow_runs/{run}").json()["state_type"] == "CANCELLED"


@pytest.mark.parametrize("removed", ["limit", "deployment"])
def test_a_run_ends_whose_limit_was_removed_meanwhile(deployed: Precis, removed: str) -> None:
    ours = {"User-Agent": "prefect/3.9.1 (API 0.8.4)"}  # an older client's run holds no slot
    with client_of(deployed.api, headers=ours) as api:
        flow = api.post("/flows/", json={"name": "limited"}).raise_for_status().json()["id"]
        limited = {"name": removed, "flow_id": flow, "concurrency_limit": 1}
        made = api.post("/deployments/", json=limited).raise_for_status().json()
        where = f"/deployments/{made['id']}"
        run = api.post(f"{where}/create_flow_run", json={}).raise_for_status().json()["id"]
        for state in ("PENDING", "RUNNING", "COMPLETED"):
            if state == "COMPLETED" and removed == "limit":
                api.patch(where, json={"concurrency_limit": None}).raise_for_status()
            elif state == "COMPLETED":
                api.delete(where).raise_for_status()
            asked = {"state": {"type": state}}
            api.post(f"/flow_runs/{run}/set_state", json=asked).raise_for_status()
        assert api.get(f"/flow_runs/{run}").json()["state_type"] == "COMPLETED"


def test_a_shared_server_is_reached_from_elsewhere_with_its_password(deployed: Precis) -> None:
    elsewhere = deployed.api.replace("127.0.0.1", "127.0.0.2")
    for auth, status in ((None, 401), (AUTH, 200)):
        with client_of(elsewhere, auth=auth) as api:
            assert api.post("/flows/count", json={}).status_code == status


def test_the_form_has_all_settings_and_a_run_obeys_them(deployed: Precis, tmp_path: Path) -> None:
    """The form is filled from the schema's defaults and the deployment's parameters, and sends all
    of it. A number beyond 64 bits in another run keeps the server from listing none."""
    with client_of(deployed.api) as api:
        found = api.get("/deployments/name/train/rehearsal").raise_for_status().json()
        fields = found["parameter_openapi_schema"]["properties"]
        shown = {name: field["default"] for name, field in fields.items() if "default" in field}
        filled_in = {**shown, **found["parameters"], **CONFIG, "store": str(tmp_path)}

        def make(parameters: dict[str, Any], state: str) -> str:
            body = {"parameters": parameters, "state": {"type": state}}
            made = api.post(f"/deployments/{found['id']}/create_flow_run", json=body)
            return str(made.raise_for_status().json()["id"])

        sent = make(filled_in, "SCHEDULED")
        run = reached(api, sent, "COMPLETED", "FAILED", "CRASHED")
        pending = make({"config": {"steps": 10**30}}, "PENDING")  # which no worker takes
        assert {sent, pending} <= {one["id"] for one in runs(api, limit=200)}
    assert run["state_type"] == "COMPLETED", run["state"]
    assert run["name"] == "train deployed: step 1 of 1"
    started = ("precis.trainer.server", "precis.rehearsal.judges.serve")
    wait_until(lambda: not deployed.processes(*started), "the end of what it had started")
    types = {name: fields[name].get("type") for name in ("steps", "model", "benchmark")}
    assert types == {"steps": "integer", "model": "string", "benchmark": "boolean"}
    assert (fields["steps"]["minimum"], fields["steps"]["maximum"]) == (1, 1_000_000)
    ledger = load_ledger(FolderStore(tmp_path), "deployed")
    assert ledger.next_step == 1
    settings = ledger.settings
    assert settings["documents"]["val_size"] == CONFIG["documents"]["val_size"]
    assert settings["retention"]["keep_every"] == found["parameters"]["retention"]["keep_every"]
    assert settings["retention"]["keep_every"] != fields["retention"]["default"]["keep_every"]


def test_an_error_logged_in_a_servers_background_is_not_its_end(deployed: Precis) -> None:
    """As it does when SQLite is locked for long."""
    event = {
        "id": str(uuid4()),
        "occurred": datetime.now(UTC).isoformat(),
        "event": "precis.test",
        "resource": {"prefect.resource.id": "precis.test"},
    }
    data = deployed.home / "prefect"
    with closing(sqlite3.connect(data / "prefect.db", timeout=60)) as database:
        database.execute("ALTER TABLE events RENAME TO elsewhere")
        try:
            with client_of(deployed.api) as api:
                api.post("/events", json=[event]).raise_for_status()
            log = data / "server.log"
            wait_until(lambda: "no such table: events" in log.read_text(), "the server's error")
        finally:
            database.execute("ALTER TABLE elsewhere RENAME TO events")
    with client_of(deployed.api) as api:
        assert api.get("/health").is_success
