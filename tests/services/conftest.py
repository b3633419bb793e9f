"""Real processes: each test session has a home of its own, with one Prefect server in it."""

import asyncio
import fcntl
import json
import os
import secrets
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.services.patience import patience_s, read_to_end
from tests.services.prefect_api import PASSWORD
from tests.services.switched_judge import JUDGE_KEY
from tests.support.guard import shared_folder

TRAIN = """
import asyncio, sys
from flows.train import train
from precis.config import TrainConfig
from precis.errors import PrecisError

try:
    asyncio.run(train(TrainConfig.model_validate_json(sys.argv[1])))
except PrecisError as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""

ROOT = Path(__file__).parents[2]
VERIFIERS_LOCK = ROOT / "environments" / "precis_summaries" / "requirements.lock"
COMMAND = Path(sys.executable).with_name("precis")
SERVER = """
from cli import prefect_server

prefect_server._READY_TIMEOUT_S = {ready_timeout_s}
prefect_server.find_or_start().wait()
"""

LONGEST = (
    "test_rented.py",
    "test_random_kills.py",
    "test_team.py",
    "test_deployments.py",
    "test_managed.py",
    "test_commands.py",
    "test_rehearsal.py",
    "test_s3_faults.py",
    "test_browser.py",
    "test_crashes.py",
    "test_gpu_packages.py",
    "test_up.py",
    "test_killed_runs.py",
    "test_benchmark_flow.py",
    "test_judge_in_the_flow.py",
    "test_agent_benchmark.py",
    "test_endings.py",
    "test_tinker.py",
    "test_supervisor.py",
    "test_lost_server.py",
    "test_power_loss.py",
)
"""The test files that take more than half a minute, the longest first; but test_managed.py has to
wait for test_rented.py, as there is one lab of Slurm at a time."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first: each file goes to one process as a whole, and none waits for the last."""
    places = {name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path.name, len(LONGEST)))


@contextmanager
def the_migrated() -> Iterator[Path]:
    """The empty database that the run's first server has made, or makes within the block.

    It takes most of a server's start; one process of the run at a time is in the block.
    """
    folder = shared_folder("database")
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder / "migrated.db"


class Precis:
    """The `precis` command, as a user calls it, in a home of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        unset = {"PREFECT_API_URL", "WANDB_API_KEY", "PYTHONDONTWRITEBYTECODE"}
        self.environment = {
            **{name: value for name, value in os.environ.items() if name not in unset},
            "PRECIS_HOME": str(home),
            "PREFECT_HOME": str(home / "prefect"),
            "PREFECT_SERVER_API_AUTH_STRING": PASSWORD,
            "PREFECT_API_AUTH_STRING": PASSWORD,
            "COLUMNS": "120",
        }

    def python(self, program: str, timeout_s: float | None = None) -> str:
        """Run a few lines of Python in this home; what they printed, if they did not fail."""
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=timeout_s or patience_s(),
        )
        return done.stdout

    def serve(self) -> None:
        """Start this home's Prefect server."""
        with the_migrated() as database:
            if not database.exists():
                self._start_server()
                return self._give(database)
            self.take(database)
        self._start_server()

    def _start_server(self) -> None:
        # The program says why the server is not there, so it may take longer than the server.
        ready_timeout_s = patience_s()
        self.python(SERVER.format(ready_timeout_s=ready_timeout_s), 2 * ready_timeout_s)

    def take(self, database: Path) -> None:
        """Have its server, once it starts, begin with a copy of the database, if it is there."""
        self.home.mkdir(mode=0o700, exist_ok=True)
        (self.home / "prefect").mkdir(exist_ok=True)
        if database.exists():
            shutil.copy(database, self.home / "prefect" / "prefect.db")

    def _give(self, database: Path) -> None:
        source = sqlite3.connect(self.home / "prefect" / "prefect.db")
        with closing(source), closing(sqlite3.connect(database)) as copy:
            source.backup(copy)

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """Start the command; its output is piped."""
        return subprocess.Popen(
            [str(COMMAND), *arguments],
            cwd=ROOT,
            env={**self.environment, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *arguments: str, **environment: str) -> str:
        """Run it to its end and return what it printed; fail the test if it failed."""
        output, _, returncode = self.outcome(*arguments, **environment)
        assert returncode == 0, output
        return output

    def outcome(self, *arguments: str, **environment: str) -> tuple[str, None, int]:
        process = self.start(*arguments, **environment)
        output = read_to_end(process)
        return output, None, process.returncode

    def prefect(self, *arguments: str, **environment: str) -> str:
        """Run Prefect's own command against this home's server."""
        api = (self.home / "prefect" / "api-url").read_text()
        done = subprocess.run(
            [sys.executable, "-m", "prefect", *arguments],
            cwd=ROOT,
            env={**self.environment, "PREFECT_API_URL": api, **environment},
            capture_output=True,
            text=True,
            timeout=patience_s(),
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    async def train(self, config: dict[str, Any], **environment: str) -> tuple[int, str]:
        """Run the training flow in forked processes; its exit status and all that it printed."""
        from tests.services.forked import trained  # imports what the flow does

        environment = {**self.environment, "PREFECT_API_URL": self.api, **environment}
        folder = self.home / "trained" / secrets.token_hex(4)
        return await asyncio.to_thread(trained, config, environment, folder)

    async def start_training(self, config: dict[str, Any], log: Path) -> asyncio.subprocess.Process:
        """Start the training flow as a program, which starts its services as such."""
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-c", TRAIN, json.dumps(config)),
                cwd=ROOT,
                env={**self.environment, "PREFECT_API_URL": self.api},
                stdout=output,
                stderr=output,
            )

    @property
    def api(self) -> str:
        return (self.home / "prefect" / "api-url").read_text()


@pytest.fixture(scope="session")
def precis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Precis]:
    command = Precis(tmp_path_factory.mktemp("home"))
    try:
        command.serve()
        yield command
    finally:
        command.run("stop")


@pytest.fixture(scope="session")
def deployments(precis: Precis) -> Precis:
    """Everything in prefect.yaml deployed."""
    precis.prefect("work-pool", "create", "--type", "process", "--overwrite", "precis")
    precis.prefect("--no-prompt", "deploy", "--all")
    return precis


@pytest.fixture(scope="module")  # its worker would take the runs of `precis up` as well
def deployed(deployments: Precis) -> Iterator[Precis]:
    """The same with a worker that polls every second."""
    precis = deployments
    worker = subprocess.Popen(
        [sys.executable, "-m", "prefect", "worker", "start", "--pool", "precis"],
        cwd=ROOT,
        env={
            **precis.environment,
            "PREFECT_API_URL": precis.api,
            "PREFECT_WORKER_QUERY_SECONDS": "1",
            "JUDGE_API_KEY": JUDGE_KEY,
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    yield precis
    worker.send_signal(signal.SIGTERM)
    worker.wait(timeout=patience_s())


@pytest.fixture(scope="session")
def verifiers_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a virtual environment with verifiers, as the lock has it."""
    folder = tmp_path_factory.mktemp("verifiers")
    uv = Path(sys.executable).with_name("uv")
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, folder], check=True)
    python = folder / "bin" / "python"
    install = (uv, "pip", "install", "--quiet", "--python", python, "--no-deps")
    subprocess.run([*install, "--require-hashes", "-r", VERIFIERS_LOCK], check=True)
    return python
