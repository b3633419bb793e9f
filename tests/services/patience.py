"""How long tests wait; a wait that runs out fails its test with what it waited for.

    wait_until(ledger.exists, "the run's ledger", told=log.read_text)
    await until(lambda: judge.asked, "a question to the judge")
    process.wait(patience_s())

`make test` waits three minutes, and a test that is marked `long` a quarter of an hour. Where more
processes want to run than there are cores, it waits as much longer; that other machines share the
cores can't be seen. So a hang fails in minutes, and a slow machine fails nothing.
"""

import inspect
import os
import selectors
import subprocess
import sys
import time
from asyncio import sleep
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")

SHORT_S = 180.0
LONG_S = 900.0
_START_S = 0.25
"""What two idle cores take for what `stretched` measures."""
_given_s = SHORT_S


def give_patience(seconds: float) -> None:
    """Have the waits from here on last so long on an idle machine."""
    global _given_s
    _given_s = seconds


def patience_s() -> float:
    """Return the time limit of a call that blocks, in seconds of this machine as it is now."""
    return _given_s * _slowness()


class Patience:
    """The limit of a wait, on a clock that goes as slowly as the machine does.

    Args:
        what: what is waited for, as a noun.
        told: what is known, to be printed with the failure.
        seconds: on an idle machine, instead of what the waits of this test have.
    """

    def __init__(
        self, what: str, told: Callable[[], object] = str, seconds: float | None = None
    ) -> None:
        self._what = what
        self._told = told
        self._given_s = seconds or _given_s
        self.renew()

    def renew(self) -> None:
        """Begin again, after a sign of progress."""
        self._left_s = self._given_s
        self._seen = time.monotonic()

    def check(self) -> None:
        """Fail where the limit is reached."""
        now = time.monotonic()
        self._left_s -= (now - self._seen) / _slowness()
        self._seen = now
        if self._left_s < 0:
            raise AssertionError(
                f"{self._what} did not come in {self._given_s:.0f} s, of an idle machine. "
                f"{self._told()}"
            )


def wait_until(
    condition: Callable[[], T], what: str, told: Callable[[], object] = str, pause_s: float = 0.1
) -> T:
    """Wait for a condition to hold, and return what it returned; see `Patience`."""
    patience = Patience(what, told)
    while not (found := condition()):
        patience.check()
        time.sleep(pause_s)
    return found


async def until(
    condition: Callable[[], Any], what: str, told: Callable[[], object] = str, pause_s: float = 0.02
) -> Any:
    """Do the same in a coroutine; the condition may be one too."""
    patience = Patience(what, told)
    while True:
        found = condition()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return found
        patience.check()
        await sleep(pause_s)


def read_to_end(process: "subprocess.Popen[str]") -> str:
    """Return all that a process prints until it ends; one that falls silent is killed, and fails.

    As long as it prints, it may run on.
    """
    assert process.stdout is not None
    said: list[str] = []
    patience = Patience(f"A word of {process.args!r}, or its end,", lambda: "".join(said)[-3000:])
    try:
        with process.stdout as output, selectors.DefaultSelector() as ready:
            ready.register(output, selectors.EVENT_READ)
            while True:
                if ready.select(1.0):
                    part = os.read(output.fileno(), 1 << 16)
                    if not part:
                        break
                    said.append(part.decode(errors="replace"))
                    patience.renew()
                patience.check()
        process.wait(patience_s())
    except BaseException:
        process.kill()
        process.wait()
        raise
    return "".join(said)


def stretched(seconds: float) -> float:
    """As long as so many seconds of two idle cores, on this machine with what it does now.

    For a limit whose excess is a fault: where something waits for nothing, it waits longer.
    """
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", "import asyncio, httpx"], check=True)
    return seconds * max(1.0, (time.monotonic() - began) / _START_S)


def _slowness() -> float:
    """Return how many times longer the machine takes than if it were idle, by its load.

    No wait gets longer than a long test's, which is long enough for any load.
    """
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    return min(LONG_S / _given_s, max(1.0, load))
