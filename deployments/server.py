"""A Prefect server of our own, for those who have none yet.

Prefect's ephemeral mode would take five seconds at every start and show nothing in a browser;
a real server on SQLite stays up, so that one can look at the run while it goes and afterwards.
"""

import asyncio
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from deployments.configured import bring_password, configured_api
from precis.environment import Environment
from precis.errors import ConfigError, PrecisError
from precis.tls import tls_for

_READY_TIMEOUT_S = 180.0
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
    """A Prefect server, which may still be starting.

    Attributes:
        ours: whether it lives in our home, where `stop` finds it.
        started: whether this very call has started it.
    """

    api: str
    ours: bool
    started: bool = False

    @property
    def ui(self) -> str:
        return self.api.removesuffix("/api")

    def wait(self) -> None:
        """Return once it answers.

        Raises:
            PrecisError: it did not within three minutes, or has ended.
        """
        deadline = time.monotonic() + _READY_TIMEOUT_S
        while not _is_healthy(self.api):
            if time.monotonic() > deadline or (self.ours and not _is_up()):
                hint = f"Its log: {_home() / 'server.log'}." if self.ours else "Is it up?"
                raise PrecisError(f"The Prefect server at {self.api} does not answer. {hint}")
            time.sleep(0.1)


def find() -> str | None:
    """The API address of the configured server, or of our own if it runs."""
    return configured_api() or _running()


def attach() -> str:
    """Point this process at the server that is configured or up; its API address.

    Call before `prefect` is imported.

    Raises:
        PrecisError: there is none, or it does not answer, or refuses our password.
    """
    if (api := find()) is None:
        raise PrecisError(
            "No Prefect server is configured or up: set PREFECT_API_URL, or run `precis up`."
        )
    os.environ["PREFECT_API_URL"] = api
    bring_password()
    from precis.checkup import check_server  # reads much that most commands do without

    asyncio.run(check_server(api))
    return api


def find_or_start(*, share: bool = False, port: int | None = None) -> PrefectServer:
    """The configured server, or one of our own, which may still be starting.

    Also points this process at it; call before `prefect` is imported.

    Args:
        share: whether one that has to be started listens beyond the loopback.
        port: where; None takes a free one.

    Raises:
        ConfigError: a server is to be shared that runs already, or is not ours.
    """
    if configured := configured_api():
        return _only_if_not(share, PrefectServer(configured, ours=False))
    _home().mkdir(parents=True, exist_ok=True)
    os.environ.update(_SETTINGS)
    os.environ["PREFECT_HOME"] = str(_home())
    bring_password()
    if running := _running():
        server = _only_if_not(share, PrefectServer(running, ours=True))
    else:
        server = _start("0.0.0.0" if share else "127.0.0.1", port)
    os.environ["PREFECT_API_URL"] = server.api
    return server


def stop() -> bool:
    """Stop the server that we started, or are still starting; False if there is none.

    Raises:
        PrecisError: it did not stop.
    """
    if not _is_up():
        return False
    with _alone():
        if _is_up():
            os.kill(int((_home() / "server.pid").read_text()), signal.SIGTERM)
        deadline = time.monotonic() + _STOP_TIMEOUT_S
        while _is_up():
            if time.monotonic() > deadline:
                log = _home() / "server.log"
                raise PrecisError(f"The Prefect server does not stop. Its log: {log}.")
            time.sleep(0.1)
    return True


def _start(host: str, wanted_port: int | None) -> PrefectServer:
    """Start a server, unless one is starting already; its address is the same either way."""
    with _alone():
        api = _recorded()
        if api is not None and _is_up():
            return PrefectServer(api, ours=True)
        # Pages and shells that know the last one's address know this one's.
        port = str(wanted_port or (api and _is_free(api) and _port_of(api)) or _free_port())
        api = f"http://127.0.0.1:{port}/api"
        (_home() / "api-url").write_text(api)
        os.environ["PREFECT_SERVER_API_PORT"] = port
        # Whatever name the browser knows this machine by, the page asks where it came from.
        os.environ["PREFECT_SERVER_UI_API_URL"] = "/api"
        # What notifications and logs link to.
        name = "127.0.0.1" if host == "127.0.0.1" else socket.gethostname()
        os.environ["PREFECT_UI_URL"] = f"http://{name}:{port}"
        _launch(host, port)
        return PrefectServer(api, ours=True, started=True)


def _only_if_not(share: bool, server: PrefectServer) -> PrefectServer:
    if share:
        what = "on this machine" if server.ours else "that PREFECT_API_URL or a profile names"
        remedy = "Stop it with `precis stop`" if server.ours else "Unset that"
        raise ConfigError(
            f"There is a Prefect server already, at {server.api}, {what}; only one that is "
            f"started here can be shared. {remedy}, or leave --share out."
        )
    return server


def _recorded() -> str | None:
    try:
        return (_home() / "api-url").read_text() or None
    except FileNotFoundError:
        return None


def _running() -> str | None:
    api = _recorded()
    return api if api and _is_healthy(api) else None


def _free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def _port_of(api: str) -> str:
    return api.rpartition(":")[2].removesuffix("/api")


def _is_free(api: str) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", int(_port_of(api))))
        except OSError:
            return False
        return True


def _launch(host: str, port: str) -> None:
    """Start the process, which holds a lock on `server.pid` for as long as it lives.

    Not with Prefect's `--background`: that leaves it writing into a pipe which nobody reads, and
    its first warning ends it without a word.
    """
    with (_home() / "server.pid").open("w") as pid, (_home() / "server.log").open("ab") as log:
        fcntl.flock(pid, fcntl.LOCK_EX)
        process = subprocess.Popen(
            [sys.executable, "-m", "prefect", "server", "start", "--host", host, "--port", port],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, "PREFECT_HOME": str(_home())},
            pass_fds=[pid.fileno()],
            start_new_session=True,
        )
        pid.write(str(process.pid))


def _is_up() -> bool:
    """Whether the process that was started last is alive, whatever else has its id by now."""
    try:
        with (_home() / "server.pid").open() as pid:
            fcntl.flock(pid, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


@contextmanager
def _alone() -> Iterator[None]:
    """Start or stop a server while nobody else does."""
    with (_home() / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _home() -> Path:
    return (Environment().home / "prefect").absolute()


def _is_healthy(api: str) -> bool:
    try:
        return httpx.get(f"{api}/health", timeout=2, verify=tls_for(api)).is_success
    except httpx.TransportError:
        return False
