"""`precis up` for a server that PREFECT_API_URL names: what it makes and works on, and its end."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from precis.records.ledger import Ledger, load_ledger
from precis.store import FolderStore
from precis.sweep.trials import TRIAL_TAG
from tests.services.conftest import Precis, Up
from tests.services.patience import wait_until
from tests.services.prefect_api import cancel, client_of, created, reached

pytestmark = pytest.mark.long  # runs on a worker; tests/unit/sweep/ has what a sweep comes to

SMALL = {"documents.train_size": 20, "documents.val_size": 6, "validate_every": 2}
LONG = {
    "model": "interrupted",
    "steps": 500,
    "documents": {"source": "bundled", "train_size": 40, "val_size": 8},
    "benchmark": False,
}


@pytest.fixture(scope="module")
def up(precis: Precis, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """One for all tests here, which the last of them ends."""
    output = tmp_path_factory.mktemp("up") / "up.txt"
    started = Up(precis, output, "--limit", "2", PREFECT_API_URL=precis.api)
    started.prints("Ctrl-C waits")
    yield started
    if started.process.poll() is None:
        started.process.kill()
        started.process.wait()


def start_sweep(api: httpx.Client, store: Path, *steps: int) -> str:
    """Start a sweep over numbers of steps, settings whose effect is known; its run."""
    tried = [{**SMALL, "steps": each, "trainer.learning_rate": 0.03} for each in steps]
    config = {"name": "small", "grid": {}, "settings": tried, "seeds": [1], "store": str(store)}
    return created(api, "sweep/rehearsal", config)


def ledgers(store: Path) -> dict[str, Ledger]:
    """The ledger of each model that a sweep trains."""
    names = [path.parent.name for path in store.glob("*/ledger.json")]
    return {name: load_ledger(FolderStore(store), name) for name in names}


def test_a_sweep_ranks_its_settings_and_resumes(precis: Precis, up: Up, tmp_path: Path) -> None:
    with client_of(precis.api) as api:
        reached(api, start_sweep(api, tmp_path, 2), "COMPLETED")
        (page,) = tmp_path.rglob("report.md")
        assert "| 1 of 1 |" in page.read_text()
        ((model, before),) = ledgers(tmp_path).items()

        reached(api, start_sweep(api, tmp_path, 2, 4), "COMPLETED")
        trained = ledgers(tmp_path)
        assert trained[model].steps == before.steps
        assert sorted(one.next_step for one in trained.values()) == [2, 4]
        report = page.read_text()
        assert report.count("| 1 of 1 |") == 2
        query = {"artifacts": {"key": {"any_": ["sweep-small"]}}, "sort": "CREATED_DESC"}
        artifacts = api.post("/artifacts/filter", json=query).raise_for_status().json()
        assert artifacts[0]["data"] == report
        announced = {"event": {"name": ["precis.train.completed"]}}
        events = api.post("/events/filter", json={"filter": announced}).raise_for_status().json()
        benchmarked = {one["resource"]["prefect.resource.name"] for one in events["events"]}
        assert not benchmarked & set(trained), "an automation would benchmark each trial"


def test_a_cancelled_sweep_cancels_and_may_resume(precis: Precis, up: Up, tmp_path: Path) -> None:
    with client_of(precis.api) as api:
        given_up, first = start_trial(api, tmp_path, known=0)
        cancel(api, given_up)
        reached(api, first, "CANCELLING", "CANCELLED")
        again, second = start_trial(api, tmp_path, known=1)
        reached(api, first, "CANCELLED")
        reached(api, given_up, "CANCELLED")
        cancel(api, again)
        reached(api, second, "CANCELLED")
        reached(api, again, "CANCELLED")


def start_trial(api: httpx.Client, store: Path, known: int) -> tuple[str, str]:
    """A new run of a sweep, and of its trial, once that is at work; so many there were before."""
    query = {"flow_runs": {"tags": {"all_": [TRIAL_TAG]}}, "limit": 200}

    def trials() -> list[str]:
        found = api.post("/flow_runs/filter", json=query).raise_for_status().json()
        here = [run for run in found if run["parameters"]["config"]["store"] == str(store)]
        return [run["id"] for run in sorted(here, key=lambda run: str(run["created"]))][known:]

    sweep = start_sweep(api, store, 500)
    (trial,) = wait_until(trials, "a run of the sweep's trial", pause_s=0.3)
    reached(api, trial, "RUNNING")
    return sweep, trial


def test_it_deploys_works_and_ends_at_ctrl_c(precis: Precis, up: Up, tmp_path: Path) -> None:
    told = up.prints("Ctrl-C waits")
    log = precis.home / "worker.log"
    of_sweeps = len(log.read_text())
    assert f"bin/activate export PREFECT_API_URL={precis.api}" in told
    assert "and then stops the worker. " in told, "nor the server, which it has found"
    for deployment in ("benchmark/nightly", "benchmark/rehearsal", "train/rehearsal"):
        assert deployment in told
    assert "Automations none; --automations applies them" in told
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
    assert "Traceback" not in log.read_text()[of_sweeps:]
