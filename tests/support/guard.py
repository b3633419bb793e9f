"""What a test run has started ends with the run, however that ends.

A run has an id, which all that it starts inherits in its environment. A guard, which is this file
as a program, waits for the end of the run and then ends whatever still carries its id. Nobody
else's processes carry it.
"""

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

RUN = "PRECIS_TEST_RUN"
"""The variable with the run's id. A run that a test starts begins its own with its parent's."""

_TEMPORARY = Path(tempfile.gettempdir())
_PATIENCE_S = 5.0
"""From SIGTERM, after which a database has given its shared memory back, to SIGKILL."""


def current_run() -> str:
    """The id of the run that this process belongs to."""
    return os.environ[RUN]


def temporary_folder(kind: str) -> Path:
    """A new folder, which is removed after the run at the latest."""
    return Path(tempfile.mkdtemp(prefix=f"precis-{kind}-{current_run()}-"))


def shared_folder(kind: str) -> Path:
    """The folder of that kind which all processes of the run have, for as long as it lasts."""
    folder = _TEMPORARY / f"precis-{kind}-{current_run()}-shared"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def temporary_folders(run: str) -> list[Path]:
    """The folders of a run that are there."""
    return list(_TEMPORARY.glob(f"precis-*-{run}-*"))


def new_account() -> str:
    """A name for an account, which is removed after the run at the latest."""
    return f"precis-{current_run()[-8:]}-{secrets.token_hex(2)}"


def accounts(run: str) -> list[str]:
    """The accounts of a run that are there."""
    names = [account.pw_name for account in pwd.getpwall()]
    return [name for name in names if name.startswith(f"precis-{run[-8:]}-")]


@contextmanager
def guarded() -> Iterator[None]:
    """Be a run while the block lasts, and end what it has left."""
    os.environ[RUN] = ".".join(filter(None, (os.environ.get(RUN), secrets.token_hex(4))))
    command = [sys.executable, "-I", __file__]
    guard = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield
    finally:
        guard.communicate()


def carriers(run: str) -> list[psutil.Process]:
    """All processes of a run but this one, with their children.

    A process that changes its title writes over its environment: its parent tells whose it is.
    """
    found = set()
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            carried = process.environ().get(RUN, "")
            if carried == run or carried.startswith(f"{run}."):
                found |= {process, *process.children(recursive=True)}
    return [process for process in found if process.pid != os.getpid()]


def sweep(run: str) -> None:
    """End the processes of a run that is gone, and remove its folders and its accounts."""
    processes: set[psutil.Process] = set()
    for send in (signal.SIGTERM, signal.SIGKILL, signal.SIGKILL):
        # Also those whose parent has ended since, and who themselves don't by SIGTERM.
        processes.update(carriers(run))
        _end(processes, send)
    for account in accounts(run):
        remove_account(account)
    for folder in temporary_folders(run):
        remove_folder(folder)


def remove_folder(folder: Path) -> None:
    """Remove a folder, and end what still writes there."""
    _end(writers_in(folder), signal.SIGKILL)
    shutil.rmtree(folder, ignore_errors=True)


def writers_in(folder: Path) -> list[psutil.Process]:
    """All processes but this one that have opened a file below a folder to write to it.

    A step of Slurm's carries no id: it has left its parent, and its title lies over its
    environment.
    """
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            written = [Path(file.path) for file in process.open_files() if file.mode != "r"]
            if any(path.is_relative_to(folder) for path in written):
                found.append(process)
    return [process for process in found if process.pid != os.getpid()]


def remove_account(name: str) -> None:
    """Remove an account with its processes, whose environment may be sshd's, and its files."""
    try:
        uid = pwd.getpwnam(name).pw_uid
    except KeyError:
        return
    processes = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.uids().real == uid:
                processes.append(process)
    _end(processes, signal.SIGKILL)
    for path in _TEMPORARY.iterdir():  # SkyPilot's scratch files, at paths that it hard-codes
        with suppress(OSError):
            if path.stat().st_uid == uid:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
    subprocess.run(["userdel", name], check=False, capture_output=True)


def _end(processes: Collection[psutil.Process], send: signal.Signals) -> None:
    for process in processes:
        with suppress(psutil.Error):
            process.send_signal(send)
    psutil.wait_procs(processes, timeout=_PATIENCE_S)


def main() -> None:
    """Wait for the end of the run, which holds the other end of the pipe, and sweep."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    sys.stdin.buffer.read()
    sweep(current_run())


if __name__ == "__main__":
    main()
