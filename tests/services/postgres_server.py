"""A private PostgreSQL for as long as a block lasts: Debian's, in a temporary folder."""

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from precis.processes.child import free_port
from tests.services.needs import leave_out
from tests.support.guard import temporary_folder


@contextmanager
def postgres(
    database: str = "prefect", password: str = "correcthorse", port: int | None = None
) -> Iterator[str]:
    """Start one on a port, or a free one, with a user `precis`; yields its address for Prefect."""
    programs = binaries()
    folder = temporary_folder("postgres")
    user = _owner(folder)
    data, log, secret = folder / "data", folder / "log", folder / "password"
    secret.write_text(password)
    secret.chmod(0o644)
    port = port or free_port()
    try:
        # No fsync: the data need not outlive this machine.
        options = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        control = [str(programs / "pg_ctl"), "-D", str(data), "-w"]
        secured = ["-A", "scram-sha-256", f"--pwfile={secret}"]
        _run(user, [str(programs / "initdb"), "-D", str(data), "-U", "precis", *secured])
        _run(user, [*control, "-l", str(log), "-o", options, "start"])
        try:
            server = f"precis:{password}@127.0.0.1:{port}"
            maintained = f"--maintenance-db=postgresql://{server}/postgres"
            _run(user, [str(programs / "createdb"), maintained, database])
            yield f"postgresql+asyncpg://{server}/{database}"
        finally:
            _run(user, [*control, "-m", "immediate", "stop"])
    finally:
        shutil.rmtree(folder)


def dump(address: str) -> str:
    """All data of the database, as text."""
    plain = address.replace("+asyncpg", "")
    done = subprocess.run(
        [str(binaries() / "pg_dump"), "--data-only", "--inserts", plain],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def binaries() -> Path:
    """Where Debian keeps the server's programs; the test is left out where there are none."""
    installed = sorted(path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not installed:
        leave_out("the Debian package postgresql is not installed")
    return installed[-1]


def _owner(folder: Path) -> str | None:
    """The user to run it as: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    entry = pwd.getpwnam("postgres")
    os.chown(folder, entry.pw_uid, entry.pw_gid)
    return entry.pw_name


def _run(user: str | None, command: Sequence[str]) -> None:
    switched = ["runuser", "-u", user, "--"] if user else []
    done = subprocess.run(
        [*switched, *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
    )
    assert done.returncode == 0, f"{command[0]} ended with {done.returncode}"
