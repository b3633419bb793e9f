"""Real processes: a home for each process of a test run, and one Prefect server for the run."""

import asyncio
import fcntl
import gc
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.services.patience import patience_s, read_to_end, wait_until
from tests.services.prefect_api import PASSWORD
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
JUDGE_KEY = "a-key-that-must-not-be-seen"
"""What `precis up` has in its environment for its runs' judge."""
COMMAND = Path(sys.executable).with_name("precis")
SERVER = """
import asyncio
from cli import prefect_server

prefect_server._READY_TIMEOUT_S = {ready_timeout_s}
asyncio.run(prefect_server.find_or_start().wait())
"""

LONGEST = (
    "test_rented.py",
    "test_team.py",
    "test_deployments.py",
    "test_browser.py",
    "test_up.py",
    "test_crashes.py",
    "test_flow.py",
    "test_benchmark_flow.py",
    "test_lost_server.py",
    "test_commands.py",
    "test_workers.py",
    "test_mcp.py",
    "test_rehearsal.py",
    "test_smollm.py",
    "test_verifiers_agent.py",
    "test_verifiers.py",
    "test_frameworks.py",
    "test_pools.py",
    "test_s3.py",
    "test_tinker.py",
    "test_pages.py",
)
"""The test files that take longest, the longest first."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first, so that none waits for the last."""
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

    def python(self, *arguments: str, **environment: str) -> str:
        """Run Python with these arguments in this home; what it printed, if it did not fail."""
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=ROOT,
            env={**self.environment, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=2 * patience_s(),
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
        # Half as long as the program, which says why the server is not there.
        self.python("-c", SERVER.format(ready_timeout_s=patience_s()))

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

    def run(self, *arguments: str, given: str = "", **environment: str) -> str:
        """Run it to its end and return what it printed; fail the test if it failed."""
        output, status = self.outcome(*arguments, given=given, **environment)
        assert status == 0, output
        return output

    def outcome(self, *arguments: str, given: str = "", **environment: str) -> tuple[str, int]:
        """What the command prints until it ends, and its exit status.

        Args:
            given: standard input.
        """
        process = subprocess.Popen(
            [str(COMMAND), *arguments],
            cwd=ROOT,
            env={**self.environment, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert process.stdin is not None
        process.stdin.write(given)
        process.stdin.close()
        output = read_to_end(process)
        return output, process.returncode

    def prefect(self, *arguments: str, **environment: str) -> str:
        """Run Prefect's own command against this home's server."""
        command = ("-m", "prefect", *arguments)
        return self.python(*command, PREFECT_API_URL=self.api, **environment)

    def processes(self, *words: str) -> list[psutil.Process]:
        """What works in this home, and has one of these words in its command line."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                line = " ".join(process.cmdline())
                is_ours = process.environ().get("PRECIS_HOME") == str(self.home)
                if is_ours and any(word in line for word in words):
                    found.append(process)
        return found

    async def start_training(
        self, config: dict[str, Any], log: Path, program: Sequence[str] = ("-c", TRAIN)
    ) -> asyncio.subprocess.Process:
        """Start the training flow as a program, which starts its services as such."""
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            return await asyncio.create_subprocess_exec(
                *(sys.executable, *program, json.dumps(config)),
                cwd=ROOT,
                env={**self.environment, "PREFECT_API_URL": self.api},
                stdout=output,
                stderr=output,
            )

    @property
    def api(self) -> str:
        named = self.environment.get("PREFECT_API_URL")
        return named or (self.home / "prefect" / "api-url").read_text()


class Up:
    """`precis up` at work, or another command that stays, and what it has printed so far."""

    def __init__(
        self, precis: Precis, output: Path, *options: str, command: str = "up", **environment: str
    ) -> None:
        self.output = output
        with output.open("w") as file:
            self.process = subprocess.Popen(
                [str(COMMAND), command, *options],
                cwd=ROOT,
                env={**precis.environment, **environment},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )

    def prints(self, words: str) -> str:
        """Wait until it has printed these words; all that it has printed."""

        def has_printed() -> bool:
            assert self.process.poll() is None, self._text()
            return words in self._text()

        wait_until(has_printed, f"the words {words!r}", told=self._text)
        return self._text()

    def _text(self) -> str:
        return " ".join(self.output.read_text().split())

    def ends(self, *signals: signal.Signals) -> int:
        """Send signals, a second apart, and wait for its end."""
        for each in signals:
            self.process.send_signal(each)
            time.sleep(1)
        return self.process.wait(patience_s())


@pytest.fixture(scope="session")
def precis(tmp_path_factory: pytest.TempPathFactory) -> Precis:
    """A home with the Prefect server that all processes of the run share, and that ends with it."""
    folder = shared_folder("server")
    owner = Precis(folder / "home")
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (owner.home / "up").exists():
            owner.serve()
            (owner.home / "up").touch()
    command = Precis(tmp_path_factory.mktemp("home"))
    (command.home / "prefect").symlink_to(owner.home / "prefect")
    return command


@pytest.fixture(scope="session")
def s3_url() -> Iterator[str]:
    """The address of an S3 server; whoever stores something names a bucket that nobody else has."""
    from tests.services.s3_server import s3_server  # moto takes a second to import

    with s3_server() as url:
        yield url


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Precis]:
    """A home in which `precis up --share` is at work; what that has started ends with it."""
    precis = Precis(tmp_path_factory.mktemp("deployed"))
    precis.environment["JUDGE_API_KEY"] = JUDGE_KEY
    precis.environment["PREFECT_SERVER_SERVICES_EVENT_PERSISTER_FLUSH_INTERVAL"] = "1"
    with the_migrated() as database:
        precis.take(database)
    up = Up(precis, precis.home / "up.txt", "--share", "--limit", "2")
    try:
        up.prints("Worker takes")
        yield precis
        assert up.ends(signal.SIGTERM) == 0
        with pytest.raises(httpx.ConnectError):
            httpx.get(precis.api + "/health")
    finally:
        up.process.kill()
        up.process.wait()


@pytest.fixture(scope="module")
def collected() -> Iterator[None]:
    """Have what a client leaves to the garbage collector collected here, and not in a test that
    knows nothing of it."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()


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
