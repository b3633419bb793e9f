"""The deployments, against a real server and a real worker, as `prefect.yaml` says."""

import json
import time
from pathlib import Path
from typing import Any

import httpx
import psutil

from tests.services.conftest import Precis
from tests.services.prefect_api import client_of, created, reached

CONFIG: dict[str, Any] = {
    "model": "deployed",
    "steps": 3,
    "documents": {"source": "bundled", "train_size": 40, "val_size": 8},
    "validate_every": 3,
}


def run_deployment(precis: Precis, name: str, config: dict[str, Any]) -> dict[str, Any]:
    """Start a deployment's run, wait for its end, and return it."""
    with client_of(precis.api) as api:
        return reached(api, created(api, name, config), "COMPLETED", "FAILED", "CRASHED")


def test_both_rehearsals_are_deployed_with_a_form(deployed: Precis) -> None:
    with client_of(deployed.api) as api:
        for name in ("train/rehearsal", "benchmark/rehearsal"):
            found = api.get(f"/deployments/name/{name}").raise_for_status().json()
            assert found["description"]
            assert "rehearsal" in found["tags"]
            schema = json.dumps(found["parameter_openapi_schema"])
            assert "Documents held out for validation and the benchmark" in schema


def test_the_nightly_benchmark_is_scheduled_and_leaves_a_late_night_out(deployed: Precis) -> None:
    with client_of(deployed.api) as api:
        nightly = api.get("/deployments/name/benchmark/nightly").raise_for_status().json()
        [schedule] = nightly["schedules"]
        assert schedule["active"]
        assert schedule["schedule"]["cron"] == "0 3 * * *"
        assert schedule["schedule"]["timezone"] == "Europe/Berlin"
        assert nightly["concurrency_options"]["collision_strategy"] == "CANCEL_NEW"
        deadline = time.monotonic() + 120
        while not (found := _upcoming(api, nightly["id"])) and time.monotonic() < deadline:
            time.sleep(0.5)
    assert found, "the scheduler has planned no night"


def test_a_schedule_that_was_switched_off_stays_off_when_all_is_deployed_again(
    deployed: Precis,
) -> None:
    with client_of(deployed.api) as api:
        nightly = api.get("/deployments/name/benchmark/nightly").raise_for_status().json()
        [schedule] = nightly["schedules"]
        switch = f"/deployments/{nightly['id']}/schedules/{schedule['id']}"
        api.patch(switch, json={"active": False}).raise_for_status()
        try:
            deployed.prefect("--no-prompt", "deploy", "--name", "benchmark/nightly")
            again = api.get("/deployments/name/benchmark/nightly").raise_for_status().json()
            [schedule] = again["schedules"]
            assert not schedule["active"]
        finally:
            switch = f"/deployments/{nightly['id']}/schedules/{schedule['id']}"
            api.patch(switch, json={"active": True}).raise_for_status()


def _upcoming(api: httpx.Client, deployment: str) -> list[Any]:
    query = {"deployments": {"id": {"any_": [deployment]}}}
    found: list[Any] = api.post("/flow_runs/filter", json=query).raise_for_status().json()
    return found


def test_a_deployed_run_trains_and_benchmarks_and_leaves_nothing_running(
    deployed: Precis, tmp_path: Path
) -> None:
    run = run_deployment(deployed, "train/rehearsal", {**CONFIG, "store": str(tmp_path)})
    assert run["state_type"] == "COMPLETED", run["state"]
    assert run["name"] == "train deployed: step 3 of 3"
    assert (tmp_path / "deployed" / "benchmarks" / "0003" / "report.html").exists()
    assert not _children_of(deployed)
    again = {key: CONFIG[key] for key in ("model", "documents")}
    benchmark = run_deployment(
        deployed, "benchmark/rehearsal", {**again, "store": str(tmp_path), "every": 3}
    )
    assert benchmark["state_type"] == "COMPLETED", benchmark["state"]


def test_a_run_that_can_not_work_fails_with_its_sentence(deployed: Precis, tmp_path: Path) -> None:
    config = {**CONFIG, "store": str(tmp_path), "documents": {"source": "no-such.csv"}}
    run = run_deployment(deployed, "train/rehearsal", config)
    assert run["state_type"] == "FAILED"
    assert "no-such.csv is neither a file or folder here" in run["state"]["message"]


def test_a_benchmark_on_other_documents_than_were_held_out_is_refused(
    deployed: Precis, tmp_path: Path
) -> None:
    trained = {**CONFIG, "store": str(tmp_path), "steps": 1, "benchmark": False}
    assert run_deployment(deployed, "train/rehearsal", trained)["state_type"] == "COMPLETED"
    other = {
        "model": "deployed",
        "store": str(tmp_path),
        "documents": {**CONFIG["documents"], "seed": 2},
    }
    run = run_deployment(deployed, "benchmark/rehearsal", other)
    assert run["state_type"] == "FAILED"
    assert "some of the held-out ones may have been trained on" in run["state"]["message"]


def test_the_server_refuses_settings_that_do_not_fit(deployed: Precis) -> None:
    with client_of(deployed.api) as api:
        deployment = api.get("/deployments/name/train/rehearsal").json()
        body = {"parameters": {"config": {**CONFIG, "steps": 0}}}
        answer = api.post(f"/deployments/{deployment['id']}/create_flow_run", json=body)
    assert answer.status_code in (409, 422)
    assert "minimum" in answer.text


def _children_of(precis: Precis) -> list[str]:
    """Trainers and stand-ins that work in this home."""
    modules = {"precis.trainer.server", "precis.standins.serve"}
    found = []
    for process in psutil.process_iter():
        try:
            is_ours = modules & set(process.cmdline())
            if is_ours and process.environ().get("PRECIS_HOME") == str(precis.home):
                found.append(" ".join(process.cmdline()))
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found
