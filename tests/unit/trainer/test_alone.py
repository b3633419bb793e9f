"""A trainer that its client has left, and one whose training hangs."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator

import pytest

from precis.errors import TrainerError
from precis.trainer.watchdog import watched

_ALONE = """
import asyncio, sys
from precis.trainer.guard import Guard

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        return await receive()
    status = int(scope["path"])
    await send({"type": "http.response.start", "status": status, "headers": []})

async def nothing(message=None):
    pass

async def main():
    guard = Guard(app, "a-token", 0.4)
    if sys.argv[1] == "served":  # as uvicorn does it: one lifespan, as long as the process
        await guard({"type": "lifespan"}, asyncio.Event().wait, nothing)
    headers = [(b"authorization", b"Bearer " + sys.argv[2].encode())]
    request = {"type": "http", "path": sys.argv[1], "headers": headers}
    for _ in range(8):
        await guard(request, nothing, nothing)
        await asyncio.sleep(0.1)
    print("lived")

asyncio.run(main())
"""


def life(asks: str, token: str = "a-token") -> subprocess.CompletedProcess[str]:
    """A trainer that ends 0.4 s after its client was last heard of, asked for 0.8 s.

    Args:
        asks: the status that the client is answered with; `served` for nobody who asks.
    """
    command = [sys.executable, "-c", _ALONE, asks, token]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_a_trainer_lives_as_long_as_its_client_is_served() -> None:
    assert "lived" in life("200").stdout


@pytest.mark.parametrize(
    ("status", "token"),
    [("404", "a-token"), ("422", "a-token"), ("200", "another"), ("404", "another")],
)
def test_who_is_refused_keeps_no_trainer_alive(status: str, token: str) -> None:
    done = life(status, token)
    assert "lived" not in done.stdout
    assert done.returncode == -15, done.stderr


def test_the_servers_own_lifespan_is_no_answer_under_way() -> None:
    assert life("served").returncode == -15


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
