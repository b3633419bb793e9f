"""What a managed job runs on its machine, as a program against a real Prefect server.

`test_rented.py` has the run that is executed, and its machines that are lost or told to end.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.services.conftest import ROOT, Precis
from tests.services.patience import patience_s
from tests.services.prefect_api import client_of, states_of

pytestmark = pytest.mark.long  # two lives of the program

QUICK = {
    "model": "managed",
    "steps": 1,
    "documents": {"source": "bundled", "train_size": 12, "val_size": 3},
    "rollouts": {"groups_per_step": 2, "rollouts_per_group": 4},
    "benchmark": False,
}


def new_run(api: httpx.Client, store: Path) -> str:
    """A flow run that nobody has executed yet."""
    flow = api.post("/flows/", json={"name": "train"}).raise_for_status().json()
    body: dict[str, Any] = {
        "flow_id": flow["id"],
        "parameters": {"config": {**QUICK, "store": str(store)}},
        "state": {"type": "PENDING"},
    }
    return str(api.post("/flow_runs/", json=body).raise_for_status().json()["id"])


def execute(precis: Precis, run: str, home: Path) -> tuple[int, str]:
    """Execute it on a machine, which is a home here; the exit code, and what was printed."""
    settings = {"PREFECT_API_URL": precis.api, "PRECIS_HOME": str(home), "PRECIS_FLOW_RUN": run}
    done = subprocess.run(
        [sys.executable, "-m", "cli.managed_run"],
        cwd=ROOT,
        env={**precis.environment, **settings},
        capture_output=True,
        text=True,
        timeout=patience_s(),
    )
    return done.returncode, done.stdout + done.stderr


def test_a_run_that_has_ended_is_not_executed_again(precis: Precis, tmp_path: Path) -> None:
    with client_of(precis.api) as api:
        run = new_run(api, tmp_path / "store")
        for state in ("RUNNING", "COMPLETED"):
            asked = {"state": {"type": state}, "force": True}
            api.post(f"/flow_runs/{run}/set_state", json=asked).raise_for_status()
        states = states_of(api, run)
        code, output = execute(precis, run, tmp_path / "home")
        assert code == 0, output
        assert states_of(api, run) == states
    assert not (tmp_path / "store").exists()


def test_a_run_that_fails_fails_the_job(precis: Precis, tmp_path: Path) -> None:
    (tmp_path / "store").write_text("no folder")
    with client_of(precis.api) as api:
        run = new_run(api, tmp_path / "store")
        code, output = execute(precis, run, tmp_path / "home")
        assert code == 1, output
        assert states_of(api, run)[-1]["type"] == "FAILED"
