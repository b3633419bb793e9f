"""The user's programs, started without secrets, and ended together with their children."""

import asyncio
import os
import re
import subprocess
import threading
from collections.abc import Collection, Mapping, MutableMapping, Sequence
from contextlib import suppress
from tempfile import TemporaryFile

from precis.environment import key_variables
from precis.errors import ConfigError, without_controls, without_passwords
from precis.processes.supervisor import SUPERVISE

_SECRET = re.compile("KEY|TOKEN|SECRET|PASSW|CREDENTIAL|AUTH|COOKIE|NOTIFY|WEBHOOK", re.IGNORECASE)
_WITH_PASSWORD = re.compile(r"://[^\s/?#]*@")
_ERROR = re.compile(r"[\w.]*(Error|Exception|panic)\b")
_SECRET_MIN = 8
"""A shorter value is no secret, and may be part of any word."""
_TAIL = 64 * 1024
"""Bytes kept from the end of a program's output."""
_SHOWN = 200
"""Characters shown of a program's last error."""
_OUTPUT_MAX = 64 * 1024 * 1024
_STOP_S = 4.5
"""Longer than a supervisor takes to kill a process that ignores SIGTERM; the recorder waits 5 s."""


def harmless(granted: Collection[str] = ()) -> dict[str, str]:
    """Return this process's environment variables without possible secrets, except `granted`
    ones."""
    ours = set(key_variables())
    kept = {}
    for name, value in os.environ.items():
        secret = name in ours or _SECRET.search(name) or _WITH_PASSWORD.search(value)
        if name in granted or not secret:
            kept[name] = value
    kept.setdefault("NO_PROXY", "")
    bypass_proxy(kept)
    # Fixes the order of sets across processes, so that the puzzle that is scored is the one asked.
    kept["PYTHONHASHSEED"] = "0"
    return kept


def without_secrets(text: str) -> str:
    """Return a text with `…` for users and passwords in addresses, for our keys, and for the values
    of environment variables with names like a secret's, unless they are paths. A text is cut only
    afterwards, since half a key is not found."""
    text = without_passwords(text)
    values: list[str] = []
    with suppress(ConfigError, ValueError):  # somebody edits `.env`
        values += [key.get_secret_value() for key in key_variables().values() if key]
    for name, value in os.environ.items():
        if _SECRET.search(name) and not os.path.exists(os.path.expanduser(value)):
            values.append(value)
    for value in sorted(values, key=len, reverse=True):  # another may be a part of it
        if len(value) >= _SECRET_MIN and not value.isalpha():
            text = text.replace(value, "…")
    return text


def bypass_proxy(variables: MutableMapping[str, str], host: str = "localhost") -> None:
    """Add a host and the loopback, where the recorder listens, to those that clients reach without
    the proxy in some environment variables; without any variable of proxies, change nothing."""
    # NO_PROXY alone has clients on macOS ignore the proxy of the system's settings.
    if not any(name.lower().endswith("_proxy") for name in variables):
        return
    direct = variables.get("no_proxy") or variables.get("NO_PROXY") or ""
    # `*` means all hosts only if it is alone.
    if direct.strip() != "*":
        known = [one.strip() for one in direct.split(",") if one.strip()]
        direct = ",".join(dict.fromkeys([*known, "127.0.0.1", "localhost", host]))
    variables["NO_PROXY"] = variables["no_proxy"] = direct


async def start(
    command: Sequence[str], variables: Mapping[str, str], pass_fds: Sequence[int] = ()
) -> asyncio.subprocess.Process:
    """Start a program under a supervisor, without a standard input."""
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        *SUPERVISE,
        *command,
        env=dict(variables),
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        pass_fds=pass_fds,
    )


async def end(process: asyncio.subprocess.Process) -> None:
    """End a program started by `start`, and its children."""
    assert process.stdin
    process.stdin.close()
    with suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), _STOP_S)
    with suppress(ProcessLookupError):
        process.kill()


async def tail(stream: asyncio.StreamReader) -> bytes:
    """Read a stream to its end, and return the last bytes."""
    kept = b""
    while more := await stream.read(_TAIL):
        kept = (kept + more)[-_TAIL:]
    return kept


def output_of(
    command: Sequence[str], deadline_s: float, variables: Mapping[str, str]
) -> tuple[str, str]:
    """Run a program, and return its output and its problem, or empty: `ended with status 1
    (ValueError: no such board)`, with the end of its standard error."""
    with (
        TemporaryFile() as errors,
        subprocess.Popen(
            [*SUPERVISE, *command],
            env=dict(variables),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        ) as process,
    ):
        assert process.stdin and process.stdout
        late = threading.Timer(deadline_s, process.stdin.close)
        late.start()
        try:
            output = process.stdout.read(_OUTPUT_MAX + 1)
        finally:
            in_time = late.is_alive()
            late.cancel()
            process.stdin.close()
            process.stdout.close()
        status = process.wait()
        errors.seek(max(0, errors.seek(0, os.SEEK_END) - _TAIL))
        printed = errors.read().decode(errors="replace")
    problem = ""
    if not in_time:
        problem = f"did not end within {deadline_s:g} s"
    elif len(output) > _OUTPUT_MAX:
        problem = "prints more than 64 MiB"
    elif status:
        problem = describe_status(status, printed)
    return output.decode(errors="replace"), problem


def describe_status(status: int, printed: str) -> str:
    """Return `ended with status 1 (ValueError: no such board)`, with the last line of a program's
    standard error that names an error, or else its last: Node prints others below it."""
    lines = [
        line for line in without_secrets(without_controls(printed)).split("\n") if line.strip()
    ]
    named = [line for line in lines if _ERROR.match(line)]
    said = (named or lines or [""])[-1].strip()
    return f"ended with status {status}" + (f" ({said[-_SHOWN:]})" if said else "")
