"""What it adds to a step that the checkpoint of the step before goes to the store meanwhile.

    python bench/uploads.py [--endpoint URL] [--mb 170] [--steps 13] [--answer-s 9]

It trains through the real flow, to an S3 server (moto's, without an endpoint), with a policy whose
answers take nine seconds. Every second checkpoint has 170 MB, the others a few kilobytes. What the
steps beside a large upload take longer than their neighbours is what checkpointing adds; `wait` is
the part of it in which a step stood still for the upload.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import SecretStr
from rich.console import Console
from rich.table import Table

from bench.checkpoints import server
from precis.environment import S3Environment
from precis.records.ledger import StepRecord, load_ledger
from precis.store.s3 import S3Store

_BUCKET = "precis-bench"
_MODEL = "uploads"
_PHASES = ("gather", "wait")


def trained(home: Path, environment: Mapping[str, str], steps: int) -> tuple[StepRecord, ...]:
    """The steps of a run."""
    config = {
        "model": _MODEL,
        "steps": steps,
        "store": f"s3://{_BUCKET}/runs",
        "documents": {"train_size": 40, "val_size": 8},
        "validate_every": steps,
        "benchmark": False,
    }
    done = subprocess.run(
        [sys.executable, "-m", "bench.uploading.flow", json.dumps(config)],
        env={
            **os.environ,
            **environment,
            "PRECIS_HOME": str(home),
            "PREFECT_HOME": str(home / "prefect"),
            "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "true",
            "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f"The run failed:\n{done.stdout[-2000:]}")
    settings = S3Environment(
        aws_access_key_id=SecretStr(environment["AWS_ACCESS_KEY_ID"]),
        aws_secret_access_key=SecretStr(environment["AWS_SECRET_ACCESS_KEY"]),
        aws_endpoint_url=environment["AWS_ENDPOINT_URL"],
    )
    return load_ledger(S3Store(_BUCKET, "runs", settings), _MODEL).steps


def show(steps: Sequence[StepRecord], megabytes: int, console: Console) -> None:
    """The medians of the steps beside a large upload and beside a small one, and the difference.

    Step k gathers while checkpoint k, which step k - 1 made, is on its way.
    """
    table = Table(title="seconds of a step, without the training (medians)")
    for column in ("beside an upload of", "steps", "gather", "wait", "both", "the upload took"):
        table.add_column(column, justify="right")
    both: list[float] = []
    for name, remainder in (("a few kB", 0), (f"{megabytes} MB", 1)):
        # Beside the first step nothing is uploaded.
        chosen = []
        for at, step in enumerate(steps):
            if at and at % 2 == remainder:
                chosen.append((steps[at - 1], step))
        gather, wait = (
            _median(step.seconds.get(phase, 0.0) for _, step in chosen) for phase in _PHASES
        )
        both.append(gather + wait)
        seconds = (gather, wait, gather + wait, _median(before.commit_s for before, _ in chosen))
        table.add_row(name, str(len(chosen)), *(f"{one:.2f}" for one in seconds))
    console.print(table)
    added = both[1] - both[0]
    console.print(
        f"Checkpointing adds {added:.2f} s to a step of {both[0]:.1f} s: {added / both[0]:.1%}."
    )


def _median(seconds: Iterable[float]) -> float:
    return statistics.median(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--endpoint")
    parser.add_argument("--mb", type=int, default=170)
    parser.add_argument("--steps", type=int, default=13)
    parser.add_argument("--answer-s", type=float, default=9)
    arguments = parser.parse_args()
    with server(arguments.endpoint) as url, TemporaryDirectory() as temporary:
        environment = {
            "AWS_ACCESS_KEY_ID": os.environ.get("AWS_ACCESS_KEY_ID", "bench"),
            "AWS_SECRET_ACCESS_KEY": os.environ.get("AWS_SECRET_ACCESS_KEY", "bench"),
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": url,
            "PRECIS_S3_CREATE_BUCKET": "1",
            "BENCH_MB": str(arguments.mb),
            "BENCH_ANSWER_S": str(arguments.answer_s),
        }
        show(trained(Path(temporary), environment, arguments.steps), arguments.mb, Console())


if __name__ == "__main__":
    main()
