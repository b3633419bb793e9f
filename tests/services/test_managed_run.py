"""What a managed job runs on its machine, as a program against a real Prefect server.

A machine is a home of its own here, and losing it is SIGKILL to all that ran there.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
import yaml

from precis.cluster.managed import TASK
from precis.errors import StoreError
from precis.records.ledger import load_ledger
from precis.store import FolderStore
from tests.services.conftest import ROOT, Precis
from tests.services.patience import patience_s, wait_until
from tests.services.prefect_api import client_of, reached, states_of

pytestmark = pytest.mark.long  # nine lives of the flow as a program

STEPS = 20
QUICK = {
    "model": "managed",
    "steps": STEPS,
    "documents": {"source": "bundled", "train_size": 12, "val_size": 3},
    "rollouts": {"groups_per_step": 2, "rollouts_per_group": 4},
    "validate_every": STEPS,
    "benchmark": False,
}


_RECOVERED = yaml.safe_load(TASK.read_text())["resources"]["job_recovery"]["recover_on_exit_codes"]
"""The exit codes after which SkyPilot goes on elsewhere."""


class Machine:
    """A machine that executes a flow run."""

    def __init__(self, precis: Precis, run: str, home: Path) -> None:
        self.log = home.with_suffix(".txt")
        settings = {"PREFECT_API_URL": precis.api, "PRECIS_HOME": str(home), "PRECIS_FLOW_RUN": run}
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "cli.managed_run"],
                cwd=ROOT,
                env={**precis.environment, **settings},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def lose(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def tell_to_end(self) -> None:
        """As a cloud does before it takes a machine back."""
        os.killpg(self.process.pid, signal.SIGTERM)

    def ends(self) -> int:
        return self.process.wait(patience_s())


class Job:
    """A flow run that nobody has executed yet, and the machines that it gets."""

    def __init__(self, precis: Precis, api: httpx.Client, folder: Path, steps: int = STEPS) -> None:
        self._precis = precis
        self._api = api
        self._folder = folder
        self.store = FolderStore(folder / "store")
        flow = api.post("/flows/", json={"name": "train"}).raise_for_status().json()
        body = {
            "flow_id": flow["id"],
            "parameters": {"config": {**QUICK, "steps": steps, "store": str(folder / "store")}},
            "state": {"type": "PENDING"},
        }
        self.run = str(api.post("/flow_runs/", json=body).raise_for_status().json()["id"])

    def rent(self) -> Machine:
        return Machine(self._precis, self.run, self._folder / uuid4().hex)

    def wait_for_step(self, step: int, machine: Machine) -> None:
        def has_come() -> bool:
            assert machine.process.poll() is None, machine.log.read_text()
            return self.committed >= step

        wait_until(has_come, f"step {step}", told=machine.log.read_text)

    @property
    def committed(self) -> int:
        try:
            return load_ledger(self.store, "managed").next_step
        except StoreError:
            return 0

    def states(self) -> list[str]:
        return [f"{one['type']} {one['name']}" for one in states_of(self._api, self.run)]


@pytest.fixture
def job(precis: Precis, tmp_path: Path) -> Any:
    with client_of(precis.api) as api:
        yield Job(precis, api, tmp_path)


def test_the_machine_after_a_lost_one_goes_on_in_the_same_flow_run(job: Job) -> None:
    first = job.rent()
    job.wait_for_step(3, first)
    first.lose()
    goes_on_elsewhere(job)
    assert job.states().count("PENDING Recovering") == 1
    third = job.rent()
    assert third.ends() == 0
    assert job.states()[-1] == "COMPLETED Completed", "a run that has ended was executed again"


def test_a_machine_that_is_told_to_end_says_that_it_was_no_error(job: Job) -> None:
    first = job.rent()
    job.wait_for_step(3, first)
    first.tell_to_end()
    assert first.ends() in _RECOVERED, first.log.read_text()
    goes_on_elsewhere(job)


def goes_on_elsewhere(job: Job) -> None:
    """Another machine ends the run, from where the one before has left it."""
    left_at = job.committed
    assert left_at < STEPS
    machine = job.rent()
    assert machine.ends() == 0, machine.log.read_text()
    assert f"Continues from step {left_at}." in machine.log.read_text()
    assert len(load_ledger(job.store, "managed").steps) == STEPS
    assert job.states()[-1] == "COMPLETED Completed"


def test_the_cancel_button_ends_it_well(precis: Precis, tmp_path: Path) -> None:
    steps = 100 * STEPS  # Prefect's command takes its time
    with client_of(precis.api) as api:
        job = Job(precis, api, tmp_path, steps)
        machine = job.rent()
        job.wait_for_step(1, machine)
        precis.prefect("flow-run", "cancel", job.run)
        assert machine.ends() == 0, machine.log.read_text()
        assert reached(api, job.run, "CANCELLED")["state_name"] == "Cancelled"
    assert 1 <= job.committed < steps


def test_a_run_that_fails_fails_the_job(job: Job, tmp_path: Path) -> None:
    (tmp_path / "store").write_text("no folder")
    machine = job.rent()
    assert machine.ends() == 1
    assert job.states()[-1] == "FAILED Failed"
