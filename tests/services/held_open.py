"""What tests start, held open until the run is killed; `test_killed_runs.py` asks for each.

No test of the suite: its name keeps pytest from collecting it.
"""

import asyncio
import os
import subprocess
import time
from pathlib import Path

from tests.services.browser import chromium_page
from tests.services.conftest import Precis
from tests.services.postgres_server import postgres
from tests.services.slurm_lab import slurm_lab
from tests.support.guard import current_run

READY = "PRECIS_TEST_READY"
"""The variable that names a file for the run's id, written once all is up."""
_HELD_S = 600


def say_ready() -> None:
    path = Path(os.environ[READY])
    path.with_suffix(".new").write_text(current_run())
    path.with_suffix(".new").rename(path)


def test_program() -> None:
    # In a session of its own, as a daemon is.
    subprocess.Popen(["sleep", str(_HELD_S)], start_new_session=True)
    say_ready()
    time.sleep(_HELD_S)


def test_prefect(precis: Precis) -> None:
    say_ready()
    time.sleep(_HELD_S)


def test_postgresql() -> None:
    with postgres():
        say_ready()
        time.sleep(_HELD_S)


async def test_chromium() -> None:
    async with chromium_page():
        say_ready()
        await asyncio.sleep(_HELD_S)


def test_slurm() -> None:
    with slurm_lab() as lab:
        lab.submit(f"sleep {_HELD_S}")
        say_ready()
        time.sleep(_HELD_S)
