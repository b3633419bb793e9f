"""A file lock between the processes of a machine.

The kernel releases the lock of a dead process. One that is stopped (SIGSTOP, a debugger, a frozen
container) keeps it, so waiting has a deadline, and the file names the holder.
"""

import fcntl
import logging
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from precis.errors import LockHeld

PATIENCE_S = 30.0
"""Hundreds of times the duration of a write under a lock on a slow disk."""
_WARN_AFTER_S = 3.0
_LOOK_S = 0.02
_HOLDER_CHARACTERS_MAX = 1000
_log = logging.getLogger(__name__)


@contextmanager
def file_lock(path: Path, patience_s: float = PATIENCE_S) -> Iterator[TextIO]:
    """Hold the lock on a file within the block, and name this process in it meanwhile. Raises
    LockHeld if another process has held it for all of that time, and OSError if the file can't be
    written."""
    with path.open("a+", errors="replace") as file:
        acquire(file, patience_s)
        try:
            file.truncate(0)
            since = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
            file.write(f"process {os.getpid()} on {socket.gethostname()} since {since}")
            file.flush()
            yield file
        finally:
            file.truncate(0)


def acquire(file: TextIO, patience_s: float = PATIENCE_S) -> None:
    """Acquire the lock on an open file; closing the file releases it. Raises LockHeld if another
    process has held it for all of that time."""
    began = time.monotonic()
    warned = False
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            waited_s = time.monotonic() - began
            if waited_s >= patience_s:
                raise LockHeld(
                    f"The lock {file.name} is held by {_holder(file)}, and was not given back "
                    f"within {patience_s:g} s.",
                    "That process may be stopped: let it continue (`kill -CONT`) or end it (`kill "
                    "-KILL`), on its machine, and try again.",
                ) from error
        if waited_s >= _WARN_AFTER_S and not warned:
            warned = True
            _log.warning("Waits for the lock %s, held by %s.", file.name, _holder(file))
        time.sleep(_LOOK_S)


def _holder(file: TextIO) -> str:
    """Return the process that holds a lock, if the file names it."""
    file.seek(0)
    holder = file.read(_HOLDER_CHARACTERS_MAX)
    is_one = holder.startswith("process ") and holder.isprintable()
    return holder if is_one else "another process"  # acquired at this moment
