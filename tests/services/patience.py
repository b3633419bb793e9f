"""How long the tests wait for what must come, and how soon is soon on a busy machine."""

import subprocess
import sys
import time

PATIENCE_S = 900.0
"""Ten times what anything takes here on two idle cores: a machine that others use too is no fault
of the code's, and how fast the code is, `bench/` measures."""
_START_S = 0.25
"""What two idle cores take for what `stretched` measures."""


def stretched(seconds: float) -> float:
    """As long as so many seconds of two idle cores, on this machine with what it does now.

    For a limit whose excess is a fault: where something waits for nothing, it waits longer.
    """
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", "import asyncio, httpx"], check=True)
    return seconds * max(1.0, (time.monotonic() - began) / _START_S)
