"""The whole benchmark flow of a rehearsed model, with nothing but this machine."""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.judging.claims import require

STEPS = 6
SECONDS_MAX = 15
_PRECIS = Path(sys.executable).with_name("precis")
_FLOW = """
import asyncio, sys, time
from cli.rehearsal import rehearsal_config
from flows.benchmark import benchmark
from precis.config import BenchmarkConfig

of = BenchmarkConfig.of(rehearsal_config(int(sys.argv[2]), "bundled", 1, sys.argv[1]))
baselines = ("empty", "lead-350", "random-350", "centroid")
began = time.perf_counter()
report = asyncio.run(benchmark(of.model_copy(update={"baselines": baselines, "every": 2})))
print(time.perf_counter() - began)
"""


def rehearsed() -> None:
    """Four checkpoints and four baselines on 32 documents, once the policies exist."""
    with TemporaryDirectory() as home:
        store = str(Path(home) / "store")
        prefect = Path(home) / "prefect"
        elsewhere = {"PREFECT_API_URL", "PREFECT_API_AUTH_STRING"}
        environment = {
            **{name: value for name, value in os.environ.items() if name not in elsewhere},
            "PRECIS_HOME": home,
            "PREFECT_HOME": str(prefect),
            "PREFECT_LOGGING_LEVEL": "ERROR",
        }
        _run([str(_PRECIS), "rehearse", "--steps", str(STEPS), "--store", store], environment)
        try:
            found = {
                "PREFECT_API_URL": (prefect / "api-url").read_text(),
                "PREFECT_API_AUTH_STRING": (prefect / "password").read_text(),
            }
            command = [sys.executable, "-c", _FLOW, store, str(STEPS)]
            told = _run(command, {**environment, **found})
        finally:
            _run([str(_PRECIS), "stop"], environment)
    seconds = float(told.splitlines()[-1])
    print(f"{seconds:.1f} s for 8 contenders on 32 documents, services and report included")
    require(seconds < SECONDS_MAX, f"More than {SECONDS_MAX} s.")


def _run(command: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    require(done.returncode == 0, done.stdout + done.stderr)
    return done.stdout
