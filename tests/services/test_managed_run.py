"""What a managed job runs on its machine, as a program against a real Prefect server.

`test_rented.py` has the run that is executed, and its machines that are lost or told to end;
`tests/unit/cli/test_up.py` has one that ended before.
"""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.services.conftest import ROOT, Precis
from tests.services.patience import patience_s
from tests.services.prefect_api import client_of, states_of


@pytest.mark.long  # a life of the program
def test_a_run_that_fails_fails_the_job(precis: Precis, tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.write_text("no folder")
    documents = {"source": "bundled", "train_size": 12, "val_size": 3}
    config = {"model": "managed", "steps": 1, "documents": documents, "store": str(store)}
    with client_of(precis.api) as api:
        flow = api.post("/flows/", json={"name": "train"}).raise_for_status().json()
        made: dict[str, Any] = {"flow_id": flow["id"], "state": {"type": "PENDING"}}
        made["parameters"] = {"config": config}
        run = str(api.post("/flow_runs/", json=made).raise_for_status().json()["id"])
        given = {"PREFECT_API_URL": precis.api, "PRECIS_FLOW_RUN": run}
        done = subprocess.run(
            [sys.executable, "-m", "cli.managed_run"],
            cwd=ROOT,
            env={**precis.environment, **given, "PRECIS_HOME": str(tmp_path / "home")},
            capture_output=True,
            text=True,
            timeout=patience_s(),
        )
        assert done.returncode == 1, done.stdout + done.stderr
        assert states_of(api, run)[-1]["type"] == "FAILED"
