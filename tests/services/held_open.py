"""What tests start, held open until the run is killed; `test_killed_runs.py` asks for each.

No test of the suite: its name keeps pytest from collecting it.
"""

import time

from tests.services.postgres_server import postgres
from tests.services.slurm_lab import slurm_lab
from tests.support.held_program import HELD_S, say_ready


def test_postgresql() -> None:
    with postgres():
        say_ready()
        time.sleep(HELD_S)


def test_slurm() -> None:
    with slurm_lab() as lab:
        lab.submit(f"sleep {HELD_S}")
        say_ready()
        time.sleep(HELD_S)
