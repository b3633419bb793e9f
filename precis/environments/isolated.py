"""Calls of a third-party module in a separate process.

That process has no keys, no network, and can't write files (`isolated_process`). It ends with ours;
a call that takes too long kills it, and the next one starts another.
"""

import asyncio
import json
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from precis.environments.programs import harmless
from precis.errors import ConfigError

_LINE_MAX = 128 * 1024 * 1024
_STOP_S = 5.0


def release_of(package: str) -> str:
    """Return the version of a package that has an extra of its name, or raise ConfigError."""
    try:
        return version(package)
    except PackageNotFoundError as error:
        raise ConfigError(
            f"This environment needs {package}, which is not installed.",
            "Run `make install-environments`, for which reasoning-gym needs a C compiler, or "
            f"install Précis with its extra `{package}`.",
        ) from error


class IsolatedError(Exception):
    """A call raised an error there, with this message, which has no period at its end."""


class ProcessDied(IsolatedError):
    """The process died during a call and its state is lost, or it could not import the module."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class IsolatedModule:
    """Calls functions of a module, one at a time, in a process that is started on demand, and
    killed by a call that takes longer than `call_s`: `await
    IsolatedModule("my.module").call("function", 1)`."""

    def __init__(self, module: str, call_s: float = 30.0) -> None:
        self._module = module
        self._call_s = call_s
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._thread: ThreadPoolExecutor | None = None

    async def call(self, function: str, *arguments: Any) -> Any:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "precis-isolated")
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self.call_now, function, *arguments)

    def call_now(self, function: str, *arguments: Any) -> Any:
        """Call a function and return its result; blocks. Raises IsolatedError if it raised or took
        too long, or the module can't be imported."""
        with self._lock:
            process = self._process
            if process is None:
                program = [sys.executable, "-P", "-W", "ignore"]
                program += ["-m", "precis.environments.isolated_process"]
                process = self._process = subprocess.Popen(
                    [*program, self._module, str(self._call_s)],
                    env=harmless(),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,  # Ctrl-C goes to us only
                )
                try:
                    self._read(process)
                except IsolatedError as error:
                    self._stop()
                    raise ProcessDied(str(error)) from error
            assert process.stdin
            with suppress(BrokenPipeError):
                process.stdin.write(json.dumps([function, arguments]).encode() + b"\n")
                process.stdin.flush()
            return self._read(process)

    def kill(self) -> None:
        """End the process at once, and with it the current call."""
        process = self._process
        if process is not None:
            process.kill()

    async def close(self) -> None:
        """End the process after the current call."""
        await asyncio.to_thread(self.close_now)

    def close_now(self) -> None:
        """End the process; blocks."""
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)
            self._thread = None
        with self._lock:
            self._stop()

    def _read(self, process: "subprocess.Popen[bytes]") -> Any:
        assert process.stdout
        line = process.stdout.readline(_LINE_MAX)
        if not line.endswith(b"\n"):
            status = self._stop()
            if status == -signal.SIGALRM:
                raise ProcessDied(f"It took longer than {self._call_s:g} s, and was ended", status)
            raise ProcessDied(f"Its process ended with status {status}", status)
        answer = json.loads(line)
        if "error" in answer:
            raise IsolatedError(answer["error"].rstrip("."))
        return answer["returned"]

    def _stop(self) -> int | None:
        process, self._process = self._process, None
        if process is None:
            return None
        assert process.stdin and process.stdout
        with suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
        process.stdout.close()
        return process.wait()
