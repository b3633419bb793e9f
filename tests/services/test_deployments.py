"""The deployments, against a real server and a real worker, as `prefect.yaml` says."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.services.conftest import ROOT, Precis

CONFIG: dict[str, Any] = {
    "model": "deployed",
    "steps": 3,
    "documents": {"source": "bundled", "train_size": 40, "val_size": 8},
    "validate_every": 3,
}


@pytest.fixture(scope="module")
def deployed(precis: Precis) -> Iterator[Precis]:
    """Everything in prefect.yaml deployed, with a worker that polls every second."""
    precis.prefect("work-pool", "create", "--type", "process", "precis")
    precis.prefect("--no-prompt", "deploy", "--all")
    worker = subprocess.Popen(
        [sys.executable, "-m", "prefect", "worker", "start", "--pool", "precis"],
        cwd=ROOT,
        env={
            **precis.environment,
            "PREFECT_API_URL": precis.api,
            "PREFECT_WORKER_QUERY_SECONDS": "1",
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    yield precis
    worker.send_signal(signal.SIGTERM)
    worker.wait(timeout=60)


def run_deployment(precis: Precis, name: str, config: dict[str, Any]) -> dict[str, Any]:
    """Start a deployment's run, wait for its end, and return it."""
    with httpx.Client(base_url=precis.api) as api:
        deployment = api.get(f"/deployments/name/{name}").raise_for_status().json()
        body = {"parameters": {"config": config}, "state": {"type": "SCHEDULED"}}
        run = api.post(f"/deployments/{deployment['id']}/create_flow_run", json=body)
        run_id = run.raise_for_status().json()["id"]
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline:
            found: dict[str, Any] = api.get(f"/flow_runs/{run_id}").json()
            if found["state_type"] in ("COMPLETED", "FAILED", "CRASHED", "CANCELLED"):
                return found
            time.sleep(0.5)
    raise AssertionError(f"{name} did not end: {found['state']}")


def test_both_rehearsals_are_deployed_with_a_form(deployed: Precis) -> None:
    with httpx.Client(base_url=deployed.api) as api:
        for name in ("train/rehearsal", "benchmark/rehearsal"):
            found = api.get(f"/deployments/name/{name}").raise_for_status().json()
            assert found["description"]
            assert "rehearsal" in found["tags"]
            schema = json.dumps(found["parameter_openapi_schema"])
            assert "Documents held out for validation and the benchmark" in schema


def test_a_deployed_run_trains_and_benchmarks_and_leaves_nothing_running(
    deployed: Precis, tmp_path: Path
) -> None:
    run = run_deployment(deployed, "train/rehearsal", {**CONFIG, "store": str(tmp_path)})
    assert run["state_type"] == "COMPLETED", run["state"]
    assert run["name"] == "train deployed to step 3"
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
    with httpx.Client(base_url=deployed.api) as api:
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
