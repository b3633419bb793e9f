"""`precis up` for a server that PREFECT_API_URL names: what it makes, and what its end leaves."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services.conftest import Precis, Up
from tests.services.patience import wait_until
from tests.services.prefect_api import client_of, created, reached

LONG = {
    "model": "interrupted",
    "steps": 500,
    "documents": {"source": "bundled", "train_size": 40, "val_size": 8},
    "benchmark": False,
}


@pytest.fixture
def up(precis: Precis, tmp_path: Path) -> Iterator[Up]:
    started = Up(precis, tmp_path / "up.txt", PREFECT_API_URL=precis.api)
    yield started
    if started.process.poll() is None:
        started.process.kill()
        started.process.wait()


@pytest.mark.long  # a run that goes on for a minute, to be cancelled
def test_it_deploys_and_works_and_ctrl_c_cancels_in_order_and_stops_nothing_else(
    precis: Precis, up: Up, tmp_path: Path
) -> None:
    told = up.prints("Ctrl-C waits")
    assert f"export PREFECT_API_URL={precis.api}" in told
    for deployment in ("benchmark/nightly", "benchmark/rehearsal", "train/rehearsal"):
        assert deployment in told
    assert "Automations none: with SQLite" in told
    with client_of(precis.api) as api:
        run = created(api, "train/rehearsal", {**LONG, "store": str(tmp_path)})
        reached(api, run, "RUNNING")
        wait_until((tmp_path / "interrupted" / "ledger.json").exists, "the run's ledger")
        up.process.send_signal(signal.SIGINT)
        assert "Waiting for train interrupted to step 500." in up.prints("Waiting for")
        assert api.get(f"/flow_runs/{run}").json()["state_type"] == "RUNNING"
        told = precis.run("runs", COLUMNS="80")
        assert "train interrupted" in told and f"train/rehearsal; {run}" in told
        assert max(map(len, told.splitlines())) <= 80
        assert up.ends(signal.SIGINT) == 0
        assert "Cancelling train interrupted" in up.output.read_text()
        assert reached(api, run, "CANCELLED")["state_type"] == "CANCELLED"
        lease = json.loads((tmp_path / "interrupted" / "lease.json").read_text())
        assert lease["released"], "the run did not clean up"
        assert api.get("/health").is_success, "the server was not ours to stop"
    assert "Traceback" not in (precis.home / "worker.log").read_text()
