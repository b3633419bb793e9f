"""Two programs, the least that a test starts, held open until the run is killed.

No test of the suite: its name keeps pytest from collecting it.
"""

import os
import subprocess
import time
from pathlib import Path

from tests.support.guard import current_run, shared_folder

READY = "PRECIS_TEST_READY"
"""The variable that names a file for the run's id, written once all is up."""
HELD_S = 600


def say_ready() -> None:
    path = Path(os.environ[READY])
    path.with_suffix(".new").write_text(current_run())
    path.with_suffix(".new").rename(path)


def test_programs() -> None:
    # In a session of its own, as a daemon is.
    subprocess.Popen(["sleep", str(HELD_S)], start_new_session=True)
    # A step of Slurm's has left its parent, and carries no id: it only writes to a run's folder.
    command = f"sleep {HELD_S} > {shared_folder('held')}/log &"
    subprocess.run(["sh", "-c", command], env={"PATH": os.defpath}, check=True)
    say_ready()
    time.sleep(HELD_S)
