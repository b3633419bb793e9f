"""A Prefect server of our own, for those who have none yet.

Prefect's ephemeral mode would take five seconds at every start and show nothing in a browser;
a real server on SQLite stays up, so that one can look at the run while it goes and afterwards.
"""

import fcntl
import os
import socket
import subprocess
import sys
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path

import httpx

from precis.environment import Environment
from precis.errors import PrecisError
from precis.tls import tls_for

_READY_TIMEOUT_S = 90.0
_STOP_TIMEOUT_S = 30.0

_SETTINGS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    "DO_NOT_TRACK": "1",
    # Task runs are recorded in batches: without this a fast run is shown with a lag.
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE": "50",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_BATCH_SIZE": "200",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_READ_BATCH_SIZE": "50",
}


@dataclass(frozen=True)
class PrefectServer:
    """A server's API address, and whether we started it."""

    api: str
    ours: bool

    @property
    def ui(self) -> str:
        return self.api.removesuffix("/api")

    def wait(self) -> None:
        """Return once it answers.

        Raises:
            PrecisError: it did not within a minute and a half.
        """
        deadline = time.monotonic() + _READY_TIMEOUT_S
        while not _is_healthy(self.api):
            if time.monotonic() > deadline:
                hint = f"Its log: {_home() / 'server.log'}." if self.ours else "Is it up?"
                raise PrecisError(f"The Prefect server at {self.api} does not answer. {hint}")
            time.sleep(0.1)


def find_or_start() -> PrefectServer:
    """The configured server, or one of our own, which may still be starting.

    Also points this process at it; call before `prefect` is imported.
    """
    if configured := os.environ.get("PREFECT_API_URL") or _api_of_profile():
        return PrefectServer(configured, ours=False)
    _home().mkdir(parents=True, exist_ok=True)
    os.environ.update(_SETTINGS)
    os.environ["PREFECT_HOME"] = str(_home())
    server = PrefectServer(_running() or _start(), ours=True)
    os.environ["PREFECT_API_URL"] = server.api
    return server


def stop() -> bool:
    """Stop the server that we started; False if none was running.

    Raises:
        PrecisError: it did not stop.
    """
    if not (running := _running()):
        return False
    _prefect("server", "stop").wait()
    deadline = time.monotonic() + _STOP_TIMEOUT_S
    while _is_healthy(running):
        if time.monotonic() > deadline:
            log = _home() / "server.log"
            raise PrecisError(f"The Prefect server at {running} does not stop. Its log: {log}.")
        time.sleep(0.1)
    return True


def _start() -> str:
    """Start a server, unless one is starting already; its address is the same either way."""
    with (_home() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        api = _recorded()
        if api is not None and _is_alive(_home() / "server.pid"):
            return api
        (_home() / "server.pid").unlink(missing_ok=True)  # of a server that is gone
        # A start that was cut off may still come up: then at this address.
        port = (
            api.rpartition(":")[2].removesuffix("/api") if api and _is_free(api) else _free_port()
        )
        api = f"http://127.0.0.1:{port}/api"
        (_home() / "api-url").write_text(api)
        os.environ["PREFECT_SERVER_API_PORT"] = port
        _prefect("server", "start", "--background", "--host", "127.0.0.1", "--port", port)
        return api


def _recorded() -> str | None:
    try:
        return (_home() / "api-url").read_text() or None
    except FileNotFoundError:
        return None


def _running() -> str | None:
    api = _recorded()
    return api if api and _is_healthy(api) else None


def _is_alive(pid_file: Path) -> bool:
    try:
        os.kill(int(pid_file.read_text()), 0)
    except (FileNotFoundError, ValueError, ProcessLookupError):
        return False
    except PermissionError:
        return True
    return True


def _free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def _is_free(api: str) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", int(api.rpartition(":")[2].removesuffix("/api"))))
        except OSError:
            return False
        return True


def _prefect(*arguments: str) -> subprocess.Popen[bytes]:
    with (_home() / "server.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "prefect", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "PREFECT_HOME": str(_home())},
            start_new_session=True,
        )


def _home() -> Path:
    return (Environment().home / "prefect").absolute()


def _is_healthy(api: str) -> bool:
    try:
        return httpx.get(f"{api}/health", timeout=2, verify=tls_for(api)).is_success
    except httpx.TransportError:
        return False


def _api_of_profile() -> str | None:
    """The address in the user's active Prefect profile, if it names one."""
    home = Path(os.environ.get("PREFECT_HOME", "~/.prefect")).expanduser()
    try:
        profiles = tomllib.loads((home / "profiles.toml").read_text())
    except FileNotFoundError:
        return None
    active = os.environ.get("PREFECT_PROFILE", profiles.get("active", ""))
    address: str | None = profiles.get("profiles", {}).get(active, {}).get("PREFECT_API_URL")
    return address
