"""Whatever ends a trainer, the processes that it started end with it.

A trainer on a GPU is a tree: the server, `precis-gpu`, and in a separate session vLLM's
`VLLM::EngineCore`, which holds the GPU's memory. So the server runs under a supervisor
(`python -m precis.processes.supervisor MODULE …`, or `--program PROGRAM …`), to which Linux gives
every orphan of the tree.

    What ends                      Then
    the server, in any way         the supervisor ends what is left, and exits with its status
    the supervisor, by SIGTERM     it has the server stop in order, for 8 s, then the same
    its parent (--with-parent)     its standard input ends: it kills the server, then the same
    the supervisor, by SIGKILL     the server's standard input ends: the server ends the others
    both, by SIGKILL               the next trainer in that folder ends what is marked as its
    service or engine alone        the server ends itself (`need`), since it can't work on
    the client, for good           the server stops (`precis.trainer.guard`)

To end is SIGTERM, and SIGKILL two seconds later. The mark is an environment variable that names the
folder, inherited by all that the server starts; nobody else's processes are touched, whatever they
are called. Where there is no /proc (macOS) the only trainer starts no processes, and nothing is
looked for.
"""

import ctypes
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import NoReturn, TextIO

SUPERVISE = (sys.executable, "-m", "precis.processes.supervisor", "--with-parent", "--program")
"""The words before a program that make all that it starts end with it, and with its parent."""
_MARK = "PRECIS_TRAINER_FOLDER"
_PR_SET_CHILD_SUBREAPER = 36
_STOP_S = 8
"""The time that a server may take to stop."""
_TERM_S = 2.0
_KILL_S = 5.0
_WATCH_S = 0.5
_STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_BROKEN = 70
"""Exit status of a trainer that can't continue (EX_SOFTWARE)."""
_log = logging.getLogger(__name__)
_needed: "set[Process]" = set()
_needed_lock = threading.Lock()


@dataclass(frozen=True)
class Process:
    """A process that is not a zombie."""

    pid: int
    started: int
    name: str = field(compare=False)
    parent: int = field(compare=False)


def find_process(pid: int) -> Process | None:
    """Return a process of this machine; None where there is none, or no /proc."""
    try:
        # The name, in parentheses, may contain spaces; `started` is field 22 of proc(5).
        before, _, after = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")
    except OSError:
        return None
    state, parent, *rest = after.split()
    if state in "ZX":
        return None
    return Process(pid, int(rest[17]), before.partition("(")[2], int(parent))


def processes() -> list[Process]:
    """List the processes of this machine; none where there is no /proc."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        process = find_process(int(entry.name))
        if process is not None:
            found.append(process)
    return found


def descendants(of: int) -> set[Process]:
    """Return the children of a process, theirs, and so on."""
    running = processes()
    found: set[Process] = set()
    parents = {of}
    while parents:
        children = {process for process in running if process.parent in parents} - found
        found |= children
        parents = {process.pid for process in children}
    return found


def end(find: Callable[[], Collection[Process]]) -> None:
    """Send SIGTERM to all that `find` gives, then SIGKILL, until it gives nothing."""
    began = time.monotonic()
    told: set[Process] = set()
    left = find()
    while left:
        waited_s = time.monotonic() - began
        if waited_s > _TERM_S + _KILL_S:
            _log.error("Processes that can't be killed: %s.", _describe(left))
            return
        for process in left:
            if waited_s > _TERM_S:
                _signal(process.pid, signal.SIGKILL)
            elif process not in told:
                _signal(process.pid, signal.SIGTERM)
        told.update(left)
        time.sleep(0.05)
        left = find()


def end_descendants(of: int) -> None:
    """End a process of ours and all below it, also if this process needs them (`need`)."""
    tree = descendants(of) | {one for one in processes() if one.pid == of}
    with _needed_lock:
        _needed.difference_update(tree)
    end(lambda: tree.intersection(processes()))


def wait_for_parent() -> None:
    """Return once standard input ends, which is when the parent that holds its other end does."""
    while os.read(0, 4096):
        pass


# For the server.


def claim(lock: TextIO) -> None:
    """End what earlier trainers left of a folder, whose lock is held, and mark what we start."""
    status = os.fstat(lock.fileno())
    mark = f"{status.st_dev}:{status.st_ino}:{Path(lock.name).resolve().parent}"
    end(lambda: _find_marked(mark))
    os.environ[_MARK] = mark
    os.environ["SPT_NOENV"] = "1"  # setproctitle would write a process's name over its environment


def end_own() -> None:
    """End all that this process has started."""
    mark = os.environ.get(_MARK, "")
    end(lambda: descendants(os.getpid()) | (_find_marked(mark) if mark else set()))


def need(names: Collection[str]) -> None:
    """End this process as soon as one of its descendants of these names is gone.

    Args:
        names: their first 15 characters, which are all that Linux keeps.
    """
    with _needed_lock:
        watched = bool(_needed)
        _needed.update(one for one in descendants(os.getpid()) if one.name in names)
        if _needed and not watched:
            threading.Thread(target=_watch, daemon=True).start()


def end_process(reason: str) -> NoReturn:
    """End this trainer at once; the flow brings up another, which begins where the store is."""
    _log.error("%s: the trainer ends.", reason)
    os._exit(_BROKEN)  # the supervisor, or the next trainer, ends the others


def end_if_broken(patience_s: float = 0.0) -> None:
    """End this process if one that it needs is gone, or goes within that time."""
    deadline = time.monotonic() + patience_s
    while True:
        with _needed_lock:
            gone = _needed.difference(processes()) if _needed else set()
            if gone:
                end_process(f"It has lost {_describe(gone)}")
            if not _needed or time.monotonic() >= deadline:
                return
        time.sleep(0.1)


# The supervisor.


def supervise(command: list[str], *, with_parent: bool) -> int:
    """Run a command to its end, then end every process that came of it; return its exit status.

    That is 128 and the signal's number if one killed it. With `with_parent` it is killed when our
    standard input ends.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # Its standard input ends with us; and it inherits what our parent gave us to pass on.
    server = subprocess.Popen(command, stdin=subprocess.PIPE, close_fds=False)

    def stop(number: int, frame: FrameType | None) -> None:
        _signal(server.pid, signal.SIGTERM)
        signal.alarm(_STOP_S)

    signal.signal(signal.SIGALRM, lambda number, frame: _signal(server.pid, signal.SIGKILL))
    for asked in _STOPPING:
        signal.signal(asked, stop)

    def kill_with_parent() -> None:
        wait_for_parent()
        _signal(server.pid, signal.SIGKILL)

    if with_parent:
        threading.Thread(target=kill_with_parent, daemon=True).start()
    ended = 0
    while ended != server.pid:  # and meanwhile every orphan that ends
        ended, status = os.waitpid(-1, 0)
    server.returncode = os.waitstatus_to_exitcode(status)
    signal.alarm(0)
    for asked in _STOPPING:
        signal.signal(asked, signal.SIG_IGN)
    end(_list_descendants)
    return server.returncode if server.returncode >= 0 else 128 - server.returncode


def _list_descendants() -> set[Process]:
    """Our descendants; those that have ended are taken from the process table."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    return descendants(os.getpid())


def _watch() -> None:
    while _needed:
        end_if_broken()
        time.sleep(_WATCH_S)


def _find_marked(mark: str) -> set[Process]:
    """Return the processes that a server marked so has started."""
    entry = f"{_MARK}={mark}".encode()
    found = set()
    for one in processes():
        with suppress(OSError):  # gone, or another user's
            variables = Path(f"/proc/{one.pid}/environ").read_bytes().split(b"\0")
            if entry in variables and one.pid != os.getpid():
                found.add(one)
    return found


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def _describe(some: Collection[Process]) -> str:
    return ", ".join(f"{one.name} (process {one.pid})" for one in some)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    with_parent = arguments[:1] == ["--with-parent"]
    if with_parent:
        arguments = arguments[1:]
    is_program = arguments[:1] == ["--program"]
    command = arguments[1:] if is_program else [sys.executable, "-m", *arguments]
    sys.exit(supervise(command, with_parent=with_parent))
