"""A home whose runs rent their machines in the lab, and keep what they learn in a bucket."""

import secrets
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from precis.cluster.keys import cluster_name
from precis.errors import StoreError
from precis.records.ledger import load_ledger
from precis.store.s3 import S3Store
from tests.services.conftest import Precis, Up
from tests.services.s3_server import settings_for
from tests.services.slurm_lab import SlurmLab

CANARY = "canary-that-nobody-may-sing"
"""The bucket's key."""
STEPS = 20
"""Enough to lose the machine and the flow in the middle: a step takes half a second there."""
FREE = {
    "judge": {"provider": "lexical"},
    "second_judge": None,
    "trainer": {"kind": "extractive"},
}
"""What the deployment `train/h100` would otherwise ask of a person with accounts."""


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
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": CANARY,
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": s3,
            "PRECIS_S3_CREATE_BUCKET": "1",
        }

    def config(self, model: str, **cluster: Any) -> dict[str, Any]:
        rented = {"where": "sky", "infra": ["slurm/lab/gpu"], "disk_gb": 50}
        quick = {"autostop_minutes": 1, "client_lost_s": 20}
        return {
            "model": model,
            "steps": STEPS,
            "validate_every": STEPS,
            "store": self.store,
            "documents": {"source": "bundled", "train_size": 40, "val_size": 8},
            "rollouts": {"groups_per_step": 2, "rollouts_per_group": 4},
            "cluster": {**rented, **quick, **cluster},
        }

    @contextmanager
    def up(self) -> Iterator[None]:
        """Prefect's server, the deployments and a worker, as a user has them."""
        up = Up(self.precis, self.precis.home / "up.txt")
        try:
            up.prints("Ctrl-C waits")
            yield
        finally:
            up.ends(signal.SIGTERM)

    def bucket_store(self) -> S3Store:
        return S3Store(self.bucket, "runs", settings_for(self.s3))

    def committed(self, model: str) -> int:
        """Steps of the model in the store."""
        try:
            return load_ledger(self.bucket_store(), model).next_step
        except StoreError:
            return 0

    def machines(self, model: str) -> list[str]:
        name = cluster_name(model, self.store)
        return [job for job in self.lab.jobs() if job.startswith(name)]


def dump(database: Path) -> str:
    """All that a SQLite database holds."""
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
        return "\n".join(connection.iterdump())
