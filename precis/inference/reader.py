"""Reading of untrusted files, in bounded time and memory; a bad file affects no other.

A small file may unpack to gigabytes, or keep a parser busy for an hour. So another process reads
(`precis.inference.reader_process`), one for all files, which is killed and replaced if a file is
too much for it.
"""

import asyncio
import signal
import sys
from base64 import b64encode
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from precis.environments.isolated import IsolatedError, IsolatedModule, ProcessDied
from precis.errors import DocumentsError
from precis.inference.reader_process import OUT_OF_MEMORY
from precis.inference.texts import INPUT_NAME, STANDARD_INPUT, Text, kind_of


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
        call_s = self._limits.cpu_s_max * self._limits.patience
        self._process = IsolatedModule("precis.inference.reader_process", call_s)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._process.close()

    async def read(self, path: Path) -> Text:
        """Return the text of a file; of standard input if the path is `-`. Raises DocumentsError if
        it can't be read, has no text, or exceeds the limits."""
        name = INPUT_NAME if str(path) == STANDARD_INPUT else str(path)
        bytes_max = self._limits.file_bytes
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
        said = name.encode("utf-8", "replace").decode()  # it may have half a character
        answer = await self._ask(said, kind_of(path, content), content)
        if "what" in answer:
            raise DocumentsError(answer["what"], answer["remedy"])
        return Text(name, answer["text"], answer["prose"])

    async def _ask(self, name: str, kind: str, content: bytes) -> dict[str, Any]:
        """Return the process's answer; end the process if there is none."""
        limits = self._limits
        cpu_s = min(limits.cpu_s + limits.cpu_s_per_mb * len(content) / 1e6, limits.cpu_s_max)
        answer: dict[str, Any] | None = None
        try:
            async with asyncio.timeout(cpu_s * limits.patience):
                encoded = b64encode(content).decode()
                memory_bytes = limits.memory_bytes
                answer = await self._process.call("read", name, kind, encoded, cpu_s, memory_bytes)
        except (TimeoutError, IsolatedError) as error:
            what = f"{name} can't be read: {error}."
            status = error.status if isinstance(error, ProcessDied) else None
            if isinstance(error, TimeoutError) or status == -signal.SIGXCPU:
                what = f"{name} takes more than {cpu_s:.0f} s to read."
            if status == OUT_OF_MEMORY:
                what = f"{name} takes more than {memory_bytes / 2**30:.1f} GB to read."
            raise DocumentsError(what, "Save it as plain text, and give that.") from None
        finally:
            if answer is None:
                self._process.kill()
        return answer
