"""A process that stops itself in the middle of what it does."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

HOLD_LOCK = """
import os, signal, sys
from pathlib import Path
from precis.processes.file_lock import file_lock

with file_lock(Path(sys.argv[1])):
    os.kill(os.getpid(), signal.SIGSTOP)
"""
"""A program that holds the lock on a file, and stops itself."""
_PATIENCE_S = 30.0


@contextmanager
def stopped_process(program: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program that sends itself SIGSTOP; within the block it is stopped.

    It is killed after half a minute, so that who waits for it for ever fails instead.
    """
    process = subprocess.Popen([sys.executable, "-c", program, *arguments])
    reaper = threading.Timer(_PATIENCE_S, process.kill)
    reaper.start()
    try:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), f"the program has ended: {status}"
        yield process
    finally:
        reaper.cancel()
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()
