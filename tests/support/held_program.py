"""A program, the least that a test starts, held open until the run is killed.

No test of the suite: its name keeps pytest from collecting it.
"""

import os
import subprocess
import time
from pathlib import Path

from tests.support.guard import current_run

READY = "PRECIS_TEST_READY"
"""The variable that names a file for the run's id, written once all is up."""
HELD_S = 600


def say_ready() -> None:
    path = Path(os.environ[READY])
    path.with_suffix(".new").write_text(current_run())
    path.with_suffix(".new").rename(path)


def test_program() -> None:
    # In a session of its own, as a daemon is.
    subprocess.Popen(["sleep", str(HELD_S)], start_new_session=True)
    say_ready()
    time.sleep(HELD_S)
