"""A home whose runs rent their machines in the lab, and keep what they learn in a bucket."""

import secrets
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from precis.cluster.keys import cluster_name
from precis.errors import StoreError
from precis.records.ledger import load_ledger
from precis.store.s3 import S3Store
from tests.services.conftest import Precis
from tests.services.s3_server import settings_for, variables_for
from tests.services.slurm_lab import SlurmLab
from tests.support.examples import EXAMPLES

CANARY = "canary-that-nobody-may-sing"
"""The bucket's key."""
STEPS = 20
"""Enough to lose the machine and the flow in the middle: a step takes half a second there."""
FREE = {"judge": {"provider": "lexical"}, "second_judge": None, "trainer": {"kind": "extractive"}}
"""What the deployment `train/h100` would otherwise ask of a person with accounts."""
_QUEUE = (
    "SELECT spot_job_id, job_info.name, spot.status FROM spot JOIN job_info USING (spot_job_id)"
)
"""What is asked of SkyPilot's own database: its command takes seconds of a core for each look."""


class Rented:
    """Runs of the flow against the lab and a bucket, in a home of their own."""

    def __init__(self, home: Path, lab: SlurmLab, s3: str) -> None:
        self.precis, self.lab, self.s3 = Precis(home), lab, s3
        self.bucket = f"rented-{secrets.token_hex(4)}"
        self.store = f"s3://{self.bucket}/runs"
        led = {k: v for k, v in lab.environment.items() if k.startswith(("SKY", "SLURM"))}
        self.precis.environment |= led | {
            "HOME": str(lab.home),
            "PATH": lab.environment["PATH"],
            **variables_for(s3, CANARY),
        }

    def config(self, model: str, **cluster: Any) -> dict[str, Any]:
        rented = {"where": "sky", "infra": ["slurm/lab/gpu"], "disk_gb": 50}
        quick = {"autostop_minutes": 1, "client_lost_s": 20}
        # The deployments' own number of replacements, so that all runs of a model are the same.
        rollouts = {"groups_per_step": 2, "rollouts_per_group": 4, "replacements_max": 4}
        return {
            "model": model,
            "steps": STEPS,
            "validate_every": STEPS,
            "store": self.store,
            "documents": {"source": "bundled", "train_size": 40, "val_size": 8},
            "rollouts": rollouts,
            "cluster": {**rented, **quick, **cluster},
        }

    def name(self, model: str) -> str:
        """What the machine of a model's run is called."""
        return cluster_name(model, self.store)

    def bucket_store(self) -> S3Store:
        return S3Store(self.bucket, "runs", settings_for(self.s3))

    def committed(self, model: str) -> int:
        """Steps of the model in the store."""
        try:
            return load_ledger(self.bucket_store(), model).next_step
        except StoreError:
            return 0

    def machines(self, model: str) -> list[str]:
        return [job for job in self.lab.jobs() if job.startswith(self.name(model))]


class Jobs(Rented):
    """The same as managed jobs."""

    def config(self, model: str, **cluster: Any) -> dict[str, Any]:
        given = super().config(model, spot="never", **cluster)
        settings = {**given, **FREE, "benchmark": False, "prefect_api_url": self.precis.api}
        if model == "cancelled":
            # It must not end before that.
            settings |= {"steps": 10 * STEPS, "validate_every": 10 * STEPS}
            settings |= {"environment": str(EXAMPLES / "tic_tac_toe.py")}
            settings |= {"trainer": {"kind": "tool_calls"}}
        return settings

    def queue(self) -> list[tuple[int, str, str]]:
        """Return number, name and status of each managed job that there ever was.

        A job that has failed fails the test, with what was logged of it: nothing else that the
        test waits for would then come.
        """
        file = f"file:{self.lab.home}/.sky/spot_jobs.db?mode=ro"
        with closing(sqlite3.connect(file, uri=True)) as database:
            jobs: list[tuple[int, str, str]] = database.execute(_QUEUE).fetchall()
        for number, name, status in jobs:
            failed = status.startswith("FAILED")
            assert not failed, f"The job {name} is {status}:\n{self.controller_said(number)}"
        return jobs

    def status(self, model: str) -> str:
        """Return what became of a model's one job."""
        [status] = [status for _, name, status in self.queue() if name == self.name(model)]
        return status

    def controller_said(self, job: int) -> str:
        """The end of what SkyPilot's jobs controller wrote of a job, and of what the job wrote."""
        log = self.lab.home / f"sky_logs/jobs_controller/{job}.log"
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        # Lines for the spinner of a terminal; the log is mostly those.
        said = [line for line in lines if "<sky-payload>" not in line]
        return "\n".join(said)[-4000:]


def dump(database: Path) -> str:
    """All that a SQLite database holds."""
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
        return "\n".join(connection.iterdump())
