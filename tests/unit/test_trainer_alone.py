"""A trainer that its client has left, and one whose training hangs."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

from precis.errors import TrainerError
from precis.trainer.watchdog import watched

_ALONE = """
import asyncio, sys, time
from precis.presence import EndsWithClient

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        return await receive()
    await send({"type": "http.response.start", "status": int(scope["path"]), "headers": []})

async def nothing(message=None):
    pass

async def main():
    alone = EndsWithClient(app, 0.4)
    if sys.argv[1] == "served":  # as uvicorn does it: one lifespan, as long as the process
        await alone({"type": "lifespan"}, asyncio.Event().wait, nothing)
    for _ in range(8):
        await alone({"type": "http", "path": sys.argv[1]}, nothing, nothing)
        await asyncio.sleep(0.1)
    print("lived")

asyncio.run(main())
"""


@pytest.mark.parametrize(("status", "lives"), [("200", True), ("401", False)])
def test_a_trainer_lives_as_long_as_its_own_client_asks(status: str, lives: bool) -> None:
    command = [sys.executable, "-c", _ALONE, status]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert ("lived" in done.stdout) == lives
    assert lives or done.returncode == -15


def test_the_servers_own_lifespan_is_no_answer_under_way() -> None:
    command = [sys.executable, "-c", _ALONE, "served"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == -15


async def test_steps_that_come_in_time_are_passed_on() -> None:
    assert [one async for one in watched(steps(3, 0), 5, fail)] == [
        {"step": 0},
        {"step": 1},
        {"step": 2},
    ]


async def test_a_training_without_progress_is_hung() -> None:
    hung: list[bool] = []
    with pytest.raises(TrainerError, match="no progress"):
        async for _ in watched(steps(3, 5), 0.05, lambda: hung.append(True)):
            pass
    assert hung == [True]


async def steps(count: int, pause_s: float) -> AsyncIterator[dict[str, float]]:
    for step in range(count):
        await asyncio.sleep(pause_s)
        yield {"step": step}


def fail() -> None:
    raise AssertionError("It did not hang.")
