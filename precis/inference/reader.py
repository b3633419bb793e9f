"""Reading of untrusted files, in bounded time and memory; a bad file affects no other.

A small file may unpack to gigabytes, or keep a parser busy for an hour. So another process reads
(`precis.inference.reader_process`), one for all files, which is killed and replaced if a file is
too much for it.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from precis.errors import DocumentsError
from precis.inference.reader_process import OUT_OF_MEMORY
from precis.inference.texts import INPUT_NAME, STANDARD_INPUT, Text, kind_of

_MODULE = "precis.inference.reader_process"
_KEPT_VARIABLES = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TMPDIR")
"""The environment variables passed to the process; others may be keys."""
_DEATH_S = 5.0
_PLAIN = "Save it as plain text, and give that."


@dataclass(frozen=True)
class ReadLimits:
    """The limits of one file: `ReadLimits(memory_bytes=2 * 2**30)`.

    A file may take `cpu_s` seconds of CPU time and `cpu_s_per_mb` more for each megabyte, up to
    `cpu_s_max`, and `patience` times as much wall time.
    """

    file_bytes: int = 100_000_000
    memory_bytes: int = 2**30
    cpu_s: float = 10.0
    cpu_s_per_mb: float = 10.0
    cpu_s_max: float = 120.0
    patience: float = 10.0


class FileReader:
    """Reads files one by one.

    `async with FileReader() as reader: text = await reader.read(path)`
    """

    def __init__(self, limits: ReadLimits | None = None) -> None:
        self._limits = limits or ReadLimits()
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._end()

    async def read(self, path: Path) -> Text:
        """Return the text of a file; of standard input if the path is `-`.

        Raises:
            DocumentsError: it can't be read, has no text, or exceeds the limits.
        """
        name = INPUT_NAME if str(path) == STANDARD_INPUT else str(path)
        limits = self._limits
        bytes_max = limits.file_bytes
        try:
            if str(path) == STANDARD_INPUT:
                content = sys.stdin.buffer.read(bytes_max + 1)
            else:
                with path.open("rb") as file:
                    content = file.read(bytes_max + 1)
        except OSError as error:
            raise DocumentsError(f"Can't read {name}: {error.strerror}.") from error
        if len(content) > bytes_max:
            raise DocumentsError(f"{name} is larger than {bytes_max / 1e6:g} MB.", "Split it.")
        cpu_s = limits.cpu_s + limits.cpu_s_per_mb * len(content) / 1e6
        asked = {
            "name": name.encode("utf-8", "replace").decode(),  # it may have half a character
            "kind": kind_of(path, content),
            "bytes": len(content),
            "cpu_s": min(cpu_s, limits.cpu_s_max),
            "memory_bytes": limits.memory_bytes,
        }
        answer = await self._ask(asked, content)
        if "what" in answer:
            raise DocumentsError(answer["what"], answer["remedy"])
        return Text(name, answer["text"], answer["prose"])

    async def _ask(self, asked: Mapping[str, Any], content: bytes) -> dict[str, Any]:
        """Return the process's answer; end the process if there is none."""
        answer: dict[str, Any] | None = None
        if self._process is None or self._process.returncode is not None:
            known = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", _MODULE),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                # The user's current folder may have modules of any name.
                env={**known, "PYTHONSAFEPATH": "1"},
                start_new_session=True,  # Ctrl-C goes to us only
            )
        process = self._process
        assert process.stdin and process.stdout
        try:
            async with asyncio.timeout(asked["cpu_s"] * self._limits.patience):
                process.stdin.write(json.dumps(asked).encode() + b"\n" + content)
                await process.stdin.drain()
                size = int(await process.stdout.readline())
                answer = json.loads(await process.stdout.readexactly(size))
        except TimeoutError:
            raise _too_slow(asked) from None
        except (ValueError, ConnectionError, asyncio.IncompleteReadError):
            status = await self._end(grace_s=_DEATH_S)
            if status == -signal.SIGXCPU:
                raise _too_slow(asked) from None
            what = f"{asked['name']} can't be read: the process that read it ended ({status})."
            if status == OUT_OF_MEMORY:
                gigabytes = asked["memory_bytes"] / 2**30
                what = f"{asked['name']} takes more than {gigabytes:.1f} GB to read."
            raise DocumentsError(what, _PLAIN) from None
        finally:
            if answer is None:
                await self._end()
        return answer

    async def _end(self, grace_s: float = 0.0) -> int | None:
        """End the process, unless it exits within the grace period; return its exit status."""
        process = self._process
        self._process = None
        if process is None:
            return None
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), grace_s)
        with suppress(ProcessLookupError):
            process.kill()
        await process.communicate()
        return process.returncode


def _too_slow(asked: Mapping[str, Any]) -> DocumentsError:
    what = f"{asked['name']} takes more than {asked['cpu_s']:.0f} s to read."
    return DocumentsError(what, _PLAIN)
