"""The process of our own Prefect server, and the files by which it is found.

They are in `prefect/` in our home: `server.pid`, which is locked while the process lives;
`server.log`; `api-url`, its address; `host`, where it listens; and `password`.
"""

import fcntl
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cli.prefect_settings import server_password
from precis.environment import Variables, private_home
from precis.errors import ConfigError
from precis.processes.child import free_port
from precis.processes.file_lock import acquire, file_lock

LOOPBACK = "127.0.0.1"
_STOP_TIMEOUT_S = 30.0
_LOCK_PATIENCE_S = 2 * _STOP_TIMEOUT_S
"""Longer than stopping a server may take."""

SETTINGS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    # The page calls the origin that served it, by whatever name the browser knows this machine.
    "PREFECT_SERVER_UI_API_URL": "/api",
    "DO_NOT_TRACK": "1",
    # Calls are retried for two minutes: a server's restart may take one.
    "PREFECT_CLIENT_MAX_RETRIES": "6",
    # Task runs are recorded in batches: without this a fast run appears late.
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE": "50",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_BATCH_SIZE": "200",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_READ_BATCH_SIZE": "50",
}
"""The environment variables of the server, and of its clients."""


def home() -> Path:
    """Return Prefect's folder within our home; it need not exist."""
    return (Variables().home / "prefect").absolute()


def address() -> str | None:
    """Return the API address of the last started server, whether it runs or not."""
    return _read_record("api-url")


def password() -> str | None:
    """Return the `user:password` of the last started server."""
    return _read_record("password")


def start(host: str, port: int | None = None) -> bool:
    """Start a server, unless one is starting already; return whether this call did.

    A port of None reuses that of the last server, if it is free, since pages and shells know it.
    """
    (private_home() / "prefect").mkdir(exist_ok=True)
    with _alone():
        return _start(host, port)


def start_again() -> bool:
    """Restart the server at its address if it has died; return whether it had."""
    if not has_died():
        return False
    with _alone():
        # A server that is being stopped looks dead for a moment.
        return has_died() and _start(_read_record("host") or LOOPBACK)


def stop() -> bool:
    """Stop the server, even if it is still starting; return False if there is none."""
    if not home().exists():
        return False
    with _alone():
        running = is_up()
        if running:
            pid = int((home() / "server.pid").read_text())
            os.kill(pid, signal.SIGTERM)
            deadline = time.monotonic() + _STOP_TIMEOUT_S
            try:
                while is_up() and time.monotonic() < deadline:
                    time.sleep(0.1)
            finally:  # if it hangs, or at Ctrl-C; its database outlives that
                if is_up():
                    os.kill(pid, signal.SIGKILL)
        (home() / "server.pid").unlink(missing_ok=True)
    return running


def is_up() -> bool:
    """Return whether the last started process is alive; another one with its id does not count."""
    try:
        with (home() / "server.pid").open() as pid:
            fcntl.flock(pid, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def has_died() -> bool:
    """Return whether the server ended without being stopped."""
    return (home() / "server.pid").exists() and not is_up()


def _start(host: str, port: int | None = None) -> bool:
    """Start the process, which holds a lock on `server.pid` for as long as it lives.

    Without Prefect's `--background`, which leaves its output in a pipe with no reader: its first
    warning would kill it silently.
    """
    last = address()
    if last is not None and is_up():
        return False
    if port is None:
        port = int(last.rpartition(":")[2].removesuffix("/api")) if last else 0
        port = port if port and _is_free(host, port) else free_port()
    elif not _is_free(host, port):
        raise ConfigError(
            f"Port {port} is in use: something else listens there. Give another --port, or "
            "leave it out for one that is free."
        )
    known = server_password() or password() or f"precis:{secrets.token_urlsafe(24)}"
    _record("password", known)
    _record("host", host)
    _record("api-url", f"http://{LOOPBACK}:{port}/api")
    # The target of links in notifications and logs, and the origin whose pages may read answers.
    name = LOOPBACK if host == LOOPBACK else socket.gethostname()
    os.environ.setdefault("PREFECT_UI_URL", f"http://{name}:{port}")
    lock = home() / "server.pid"
    serve = [sys.executable, "-m", "cli.serve_prefect", "--host", host, "--port", str(port)]
    with lock.open("a+") as pid, (home() / "server.log").open("ab") as log:
        acquire(pid)
        pid.truncate(0)
        process = subprocess.Popen(
            [*serve, "--lock", str(lock)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={
                **os.environ,
                "PREFECT_HOME": str(home()),
                "PREFECT_SERVER_API_PORT": str(port),
                "PREFECT_SERVER_API_AUTH_STRING": known,
            },
            pass_fds=[pid.fileno()],
            start_new_session=True,
        )
        pid.write(str(process.pid))
    return True


@contextmanager
def _alone() -> Iterator[None]:
    """Hold the lock for starting or stopping a server."""
    with file_lock(home() / "lock", _LOCK_PATIENCE_S):
        yield


def _read_record(name: str) -> str | None:
    try:
        return (home() / name).read_text() or None
    except (FileNotFoundError, NotADirectoryError):
        return None


def _record(name: str, text: str) -> None:
    """Write a line for later commands; only the owner may read it."""
    new = home() / f"{name}.new"
    new.touch(mode=0o600)
    new.write_text(text)
    new.replace(home() / name)


def _is_free(host: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True
