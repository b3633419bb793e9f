"""A Prefect server of a bench's own, as `precis` starts it, on SQLite or on PostgreSQL."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import psutil

from tests.services.postgres_server import postgres
from tests.support.guard import guarded

_UP = """
from cli.prefect_server import find_or_start
server = find_or_start()
server.wait()
print(server.api)
print(server.password_file.read_text())
"""
_DATABASE = "PREFECT_API_DATABASE_CONNECTION_URL"
_DOWN = "from cli.prefect_server import stop; stop()"


@dataclass(frozen=True)
class Server:
    """A server that answers, and the environment of those who use it."""

    api: str
    environment: dict[str, str]

    @property
    def ui(self) -> str:
        return self.api.removesuffix("/api")

    @property
    def auth(self) -> httpx.BasicAuth:
        """What it asks of those who use its API themselves."""
        return httpx.BasicAuth(*self.environment["PREFECT_API_AUTH_STRING"].split(":", 1))

    @property
    def home(self) -> Path:
        return Path(self.environment["PRECIS_HOME"]) / "prefect"

    @property
    def database(self) -> str:
        """The address of its database."""
        other = self.environment.get(_DATABASE)
        return other or f"sqlite+aiosqlite:///{self.home}/prefect.db"

    @property
    def memory_mb(self) -> float:
        """Resident memory of the server and its children."""
        return float(sum(one.memory_info().rss for one in self._processes) / 1e6)

    @property
    def cpu_s(self) -> float:
        """Seconds of a processor that they have had so far."""
        times = [one.cpu_times() for one in self._processes]
        return float(sum(one.user + one.system for one in times))

    @property
    def _processes(self) -> list[psutil.Process]:
        process = psutil.Process(int((self.home / "server.pid").read_text()))
        return [process, *process.children(recursive=True)]

    @property
    def database_mb(self) -> float:
        """Size of the SQLite files."""
        return sum(path.stat().st_size for path in self.home.glob("prefect.db*")) / 1e6


@contextmanager
def server(database: str) -> Iterator[Server]:
    """A fresh server while the block lasts: on `sqlite`, or on `postgres` without fsync."""
    with ExitStack() as stack:
        home = stack.enter_context(TemporaryDirectory(prefix="precis-bench-"))
        own = {"PRECIS_HOME": home, "PREFECT_HOME": f"{home}/prefect", "PYTHONPATH": os.getcwd()}
        environment = {**_without_settings(), **own}
        if database == "postgres":
            stack.enter_context(guarded())
            environment[_DATABASE] = stack.enter_context(postgres())
        stack.callback(_python, _DOWN, environment)
        api, password = _python(_UP, environment).split()
        known = {"PREFECT_API_URL": api, "PREFECT_API_AUTH_STRING": password}
        yield Server(api, {**environment, **known})


def _without_settings() -> dict[str, str]:
    left_out = ("PREFECT_", "PRECIS_", "WANDB_", "PYTHONDONTWRITEBYTECODE")
    return {name: value for name, value in os.environ.items() if not name.startswith(left_out)}


def _python(program: str, environment: dict[str, str]) -> str:
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout
