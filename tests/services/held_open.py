"""What tests start, held open until the run is killed; `test_killed_runs.py` asks for each.

No test of the suite: its name keeps pytest from collecting it.
"""

import asyncio
import time

from tests.services.browser import chromium_page
from tests.services.conftest import Precis
from tests.services.postgres_server import postgres
from tests.services.slurm_lab import slurm_lab
from tests.support.held_program import HELD_S, say_ready


def test_prefect(precis: Precis) -> None:
    say_ready()
    time.sleep(HELD_S)


def test_postgresql() -> None:
    with postgres():
        say_ready()
        time.sleep(HELD_S)


async def test_chromium() -> None:
    async with chromium_page():
        say_ready()
        await asyncio.sleep(HELD_S)


def test_slurm() -> None:
    with slurm_lab() as lab:
        lab.submit(f"sleep {HELD_S}")
        say_ready()
        time.sleep(HELD_S)
