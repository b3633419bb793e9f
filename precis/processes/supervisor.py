"""A supervisor that ends a trainer's child processes, however the trainer ends.

A trainer on a GPU is a tree: the server, `precis-gpu`, and in a separate session vLLM's
`VLLM::EngineCore`, which holds the GPU's memory. So the server runs under a supervisor (`python -m
precis.processes.supervisor MODULE …`, or `--program PROGRAM …`, whose standard input is empty),
which adopts every orphan of the tree.

    What ends                      Then
    the server, in any way         the supervisor ends what is left, and exits with its status
    the supervisor, by SIGTERM     it has the server stop in order, for 8 s, then the same
    its parent (--with-parent)     its standard input ends: it kills the server, then the same
    the supervisor, by SIGKILL     the server's standard input ends: the server ends the others
    both, by SIGKILL               the next trainer in that folder ends what is marked as its
    service or engine alone        the server ends itself (`need`), since it can't work on
    the client, for good           the server stops (`precis.trainer.guard`)

To end a process is SIGTERM, and SIGKILL two seconds later. The mark is an environment variable that
names the folder and is inherited by the server's children; no other process is touched.
"""

import ctypes
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn, TextIO

import psutil

SUPERVISE = (sys.executable, "-m", "precis.processes.supervisor", "--with-parent", "--program")
"""The command prefix that makes a program's children end with it, and it with its parent."""
_MARK = "PRECIS_TRAINER_FOLDER"
_PR_SET_CHILD_SUBREAPER = 36
_STOP_S = 8
"""The time for a server to stop."""
_TERM_S = 2.0
_KILL_S = 5.0
_WATCH_S = 0.5
_STOPPING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_BROKEN = 70
"""The exit status of a trainer that can't continue (EX_SOFTWARE)."""
_log = logging.getLogger(__name__)
_needed: dict[psutil.Process, str] = {}
"""Processes, and how a message calls them when they have ended."""
_needed_lock = threading.Lock()


def descendants(of: int) -> set[psutil.Process]:
    """Return the running descendants of a process."""
    # psutil's `children` raises where /proc hides the processes of others (hidepid=1).
    processes = list(psutil.process_iter(["ppid"]))
    found: set[psutil.Process] = set()
    parents = {of}
    while parents:
        children = {one for one in processes if one.info["ppid"] in parents} - found
        found |= children
        parents = {one.pid for one in children}
    return running(found)


def running(some: Iterable[psutil.Process]) -> set[psutil.Process]:
    """Return those that have not ended; a zombie has."""
    found = set()
    for process in some:
        with suppress(psutil.Error):  # ended, or another user's
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                found.add(process)
    return found


def end(find: Callable[[], Collection[psutil.Process]]) -> None:
    """Send SIGTERM to all that `find` returns, then SIGKILL, until it returns none."""
    began = time.monotonic()
    told: set[psutil.Process] = set()
    left = find()
    while left:
        waited_s = time.monotonic() - began
        if waited_s > _TERM_S + _KILL_S:
            _log.error("Processes that can't be killed: %s.", ", ".join(map(str, left)))
            return
        for process in left:
            with suppress(psutil.NoSuchProcess):
                if waited_s > _TERM_S:
                    process.kill()
                elif process not in told:
                    process.terminate()
        told.update(left)
        time.sleep(0.05)
        left = find()


def end_descendants(of: int) -> None:
    """End a child of ours and its descendants, even if this process needs them (`need`)."""
    with suppress(psutil.NoSuchProcess):
        tree = {psutil.Process(of), *descendants(of)}
        with _needed_lock:
            for process in tree:
                _needed.pop(process, None)
        end(lambda: running(tree))


def wait_for_parent() -> None:
    """Return once standard input ends, as it does with the parent."""
    while os.read(0, 4096):
        pass


# For the server.


def claim(lock: TextIO) -> None:
    """End processes left by earlier trainers of a folder, whose lock is held, and mark our own."""
    status = os.fstat(lock.fileno())
    mark = f"{status.st_dev}:{status.st_ino}:{Path(lock.name).resolve().parent}"
    end(lambda: _find_marked(mark))
    os.environ[_MARK] = mark
    os.environ["SPT_NOENV"] = "1"  # setproctitle would write a process's name over its environment


def end_own() -> None:
    """End all processes that this one has started, orphans included, which its mark identifies."""
    mark = os.environ.get(_MARK, "")
    end(lambda: descendants(os.getpid()) | (_find_marked(mark) if mark else set()))


def need(names: Collection[str]) -> None:
    """End this process as soon as a descendant with one of these names ends. Of a longer name give
    the first 15 characters, as Linux keeps it."""
    with _needed_lock:
        watched = bool(_needed)
        for process in descendants(os.getpid()):
            with suppress(psutil.NoSuchProcess):
                if process.name()[:15] in names:
                    _needed[process] = f"{process.name()} (process {process.pid})"
        if _needed and not watched:
            threading.Thread(target=_watch, daemon=True).start()


def end_process(reason: str) -> NoReturn:
    """End this trainer at once; the flow starts another, which continues from the store."""
    _log.error("%s: the trainer ends.", reason)
    os._exit(_BROKEN)  # the supervisor or the next trainer ends the others


def end_if_broken(patience_s: float = 0.0) -> None:
    """End this process if one that it needs has ended, or ends within that time."""
    deadline = time.monotonic() + patience_s
    while True:
        with _needed_lock:
            gone = _needed.keys() - running(_needed)
            if gone:
                end_process("It has lost " + ", ".join(_needed[one] for one in gone))
            if not _needed or time.monotonic() >= deadline:
                return
        time.sleep(0.1)


# The supervisor.


def supervise(command: list[str], *, with_parent: bool, stdin: int = subprocess.PIPE) -> int:
    """Run a command, then end all its descendants; return its exit status.

    After a signal that is 128 plus its number. With `with_parent` the command is killed when our
    standard input ends. Its own, by default, ends with us.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # It inherits the descriptors that our parent passed.
    server = subprocess.Popen(command, stdin=stdin, close_fds=False)

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
    while ended != server.pid:  # reaps orphans meanwhile
        ended, status = os.waitpid(-1, 0)
    server.returncode = os.waitstatus_to_exitcode(status)
    signal.alarm(0)
    for asked in _STOPPING:
        signal.signal(asked, signal.SIG_IGN)
    end(_list_descendants)
    return server.returncode if server.returncode >= 0 else 128 - server.returncode


def _list_descendants() -> set[psutil.Process]:
    """Return our descendants, after reaping zombies."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    return descendants(os.getpid())


def _watch() -> None:
    while _needed:
        end_if_broken()
        time.sleep(_WATCH_S)


def _find_marked(mark: str) -> set[psutil.Process]:
    """Return the processes with a server's mark."""
    found = set()
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # ended, or another user's
            if process.environ().get(_MARK) == mark and process.pid != os.getpid():
                found.add(process)
    return found


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    with_parent = arguments[:1] == ["--with-parent"]
    if with_parent:
        arguments = arguments[1:]
    if arguments[:1] == ["--program"]:
        status = supervise(arguments[1:], with_parent=with_parent, stdin=subprocess.DEVNULL)
    else:
        status = supervise([sys.executable, "-m", *arguments], with_parent=with_parent)
    sys.exit(status)
