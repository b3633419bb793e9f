"""The functions that read files in bounded memory and time, in the process of
`precis.inference.reader`."""

import os
import resource
import sys
from base64 import b64decode
from typing import Any

from precis.environments.isolated_process import limit
from precis.errors import DocumentsError
from precis.inference.texts import read_content, reason

OUT_OF_MEMORY = 77
"""The exit status after running out of memory."""
_RECURSION = 10_000
"""The recursion limit: a page is nested a few hundred levels deep, each of several calls."""


def read(name: str, kind: str, content: str, cpu_s: float, memory_bytes: int) -> dict[str, Any]:
    """Return the text of a file, whose content is in base64, or why there is none."""
    sys.setrecursionlimit(_RECURSION)
    limit(resource.RLIMIT_AS, memory_bytes)
    used = resource.getrusage(resource.RUSAGE_SELF)
    limit(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime + cpu_s) + 1)
    try:
        found = read_content(name, kind, b64decode(content))
    except MemoryError:
        os._exit(OUT_OF_MEMORY)  # too little may be left for an answer
    except DocumentsError as error:
        return {"what": error.what, "remedy": error.remedy}
    except RecursionError:
        return {"what": f"{name} is nested too deeply to be read.", "remedy": ""}
    except Exception as error:  # any error of the libraries is the file's fault
        return {"what": f"{name} can't be read: {reason(error)}.", "remedy": ""}
    return {"text": _whole(found.text), "prose": _whole(found.prose)}


def _whole(text: str) -> str:
    """Return a text with `?` for each half of a character."""
    return text.encode("utf-8", "replace").decode()
