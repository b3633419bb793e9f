"""The process of an `IsolatedModule`: reads one call a line, and writes its result.

Before the module is imported, `sys.addaudithook` forbids Python code to open connections, start
programs, write files, or read files that are not part of Python. That stops careless code, not code
written to break out.
"""

import importlib
import json
import os
import resource
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

_IMPORT_S = 120.0
_MEMORY = 8 * 1024**3
_REFUSED = (
    "socket.",
    "subprocess.",
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.spawn",
    "os.fork",
    "os.kill",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.mkdir",
    "os.link",
    "os.symlink",
    "os.truncate",
    "os.chmod",
    "os.chown",
    "shutil.",
    "pty.",
    "ctypes.",
)
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_DEVICES = ("/dev/null", "/dev/urandom")


def main(module: str, call_s: float) -> None:
    """Serve the functions of a module until standard input ends; the kernel kills calls longer than
    `call_s`."""
    calls = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # packages' output must not mix with answers
    limit(resource.RLIMIT_AS, _MEMORY)
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_FSIZE, 0)
    # The default action also ends a computation that never returns to Python.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, _IMPORT_S)
    _seal()
    try:
        functions = importlib.import_module(module)
        answer: dict[str, Any] = {"returned": None}
    except Exception as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    _write(answers, answer)
    for line in calls:
        signal.setitimer(signal.ITIMER_REAL, call_s)
        name, arguments = json.loads(line)
        try:
            _write(answers, {"returned": getattr(functions, name)(*arguments)})
        except BaseException as error:
            _write(answers, {"error": f"{type(error).__name__}: {error}"})


def limit(what: int, most: int) -> None:
    """Set a soft limit, if the system supports it."""
    with suppress(ValueError, OSError):
        _, hard = resource.getrlimit(what)
        resource.setrlimit(what, (most, hard))


def _write(answers: Any, answer: Any) -> None:
    encoded = json.dumps(answer).encode()
    signal.setitimer(signal.ITIMER_REAL, 0)  # off until the next call
    answers.write(encoded + b"\n")
    answers.flush()


def _seal() -> None:
    """Forbid from now on everything that a game or puzzle has no need for."""
    import ctypes  # noqa: F401  (numpy does, and it opens itself)

    sys.dont_write_bytecode = True
    tempfile.tempdir = "/tmp"  # else Python finds it by writing a file
    # The folders of Python, its packages, and the word lists of nltk.
    found = [
        *_DEVICES,
        *sys.path,
        sys.prefix,
        sys.base_prefix,
        os.path.dirname(os.__file__),
        os.environ.get("NLTK_DATA", ""),
        str(Path.home() / "nltk_data"),
        "/usr/share/nltk_data",
        "/usr/local/share/nltk_data",
    ]
    # An empty one, such as an unset NLTK_DATA, would be the current folder.
    roots = [os.path.realpath(root) for root in found if root]

    def is_in(path: str) -> bool:  # except hidden parts of a folder, such as `.env`
        if path in roots:
            return True
        return any(path.startswith(f"{one}/") and "/." not in path[len(one) :] for one in roots)

    def refuse(event: str, arguments: tuple[Any, ...]) -> None:
        if event.startswith(_REFUSED) and event != "socket.gethostname":
            raise PermissionError(f"{event} is refused here.")
        if event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
            path = os.path.realpath(os.fsdecode(arguments[0]))
            if arguments[2] & _WRITES or not is_in(path):
                raise PermissionError(f"{path} is not opened here.")

    sys.addaudithook(refuse)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
