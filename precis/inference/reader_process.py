"""The process that reads files, in bounded memory and time, for `precis.inference.reader`.

A request is a line of JSON followed by the file's content; an answer is a line with the length of
the JSON that follows. The process has no keys, and writes no files.
"""

import contextlib
import json
import os
import resource
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from precis.errors import DocumentsError
from precis.inference.texts import read_content, reason

OUT_OF_MEMORY = 77
"""The exit status after running out of memory."""
_RECURSION = 10_000
"""The recursion limit: a page is nested a few hundred levels deep, each of several calls."""


def main() -> None:
    """Answer until standard input ends."""
    asked_by = sys.stdin.buffer
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # libraries' output must not mix with answers
    sys.setrecursionlimit(_RECURSION)
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_FSIZE, 0)
    while line := asked_by.readline():
        asked = json.loads(line)
        content = asked_by.read(asked["bytes"])
        _limit(resource.RLIMIT_AS, asked["memory_bytes"])
        used = resource.getrusage(resource.RUSAGE_SELF)
        _limit(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime + asked["cpu_s"]) + 1)
        try:
            answer = _read(asked["name"], asked["kind"], content)
            answers.write(b"%d\n" % len(answer) + answer)
            answers.flush()
        except MemoryError:
            os._exit(OUT_OF_MEMORY)  # too little may be left for an answer


def _read(name: str, kind: str, content: bytes) -> bytes:
    """Return the text, or why there is none, as JSON.

    Raises:
        MemoryError: it takes more than the limit.
    """
    try:
        return _json(asdict(read_content(name, kind, content)))
    except MemoryError:
        raise
    except DocumentsError as error:
        return _json({"what": error.what, "remedy": error.remedy})
    except RecursionError:
        return _json({"what": f"{name} is nested too deeply to be read.", "remedy": ""})
    except Exception as error:  # any error of the libraries is the file's fault
        return _json({"what": f"{name} can't be read: {reason(error)}.", "remedy": ""})


def _json(answer: Mapping[str, Any]) -> bytes:
    return json.dumps(answer, ensure_ascii=False).encode("utf-8", "replace")


def _limit(what: int, most: int) -> None:
    """Set a soft limit, if the system supports it."""
    with contextlib.suppress(ValueError, OSError):
        _, hard = resource.getrlimit(what)
        resource.setrlimit(what, (most, hard))


if __name__ == "__main__":
    main()
