"""A trainer that its client has left, and one whose training hangs or fails."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import NoReturn

import pytest

from precis.trainer import jobs
from precis.trainer.jobs import watch_steps
from tests.services.patience import patience_s

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
    lost_s, asks = float(sys.argv[3]), int(sys.argv[4])
    guard = Guard(app, "a-token", lost_s)
    if sys.argv[1] == "served":  # as uvicorn does it: one lifespan, as long as the process
        await guard({"type": "lifespan"}, asyncio.Event().wait, nothing)
    headers = [(b"authorization", b"Bearer " + sys.argv[2].encode())]
    request = {"type": "http", "path": sys.argv[1], "headers": headers}
    for _ in range(asks):
        await guard(request, nothing, nothing)
        await asyncio.sleep(0.1)
    print("lived")

asyncio.run(main())
"""

_UPLOADING = """
import asyncio, sys
from precis.trainer.guard import Guard

async def app(scope, receive, send):
    while (await receive())["more_body"]:
        pass
    await asyncio.sleep(2)
    print("lived")

async def main():
    pieces = []
    for piece in sys.argv[1:]:
        pieces.append({"type": "http.request", "body": b"x", "more_body": piece == "half"})

    async def receive():
        await asyncio.sleep(0.3 if pieces else 20)
        return pieces.pop(0)

    headers = [(b"authorization", b"Bearer a-token")]
    scope = {"type": "http", "path": "/", "headers": headers}
    await Guard(app, "a-token", 0.5)(scope, receive, None)

asyncio.run(main())
"""

_FAILING = """
import asyncio, subprocess, sys
from precis.processes.supervisor import need
from precis.trainer.jobs import Job, end_after_answer

async def train():
    end_after_answer("Training step 0 of m failed")
    raise RuntimeError("the GPU is full")

async def main():
    service = subprocess.Popen(["cat"], stdin=subprocess.PIPE)  # which ends with this process
    need({"cat"})
    async for event in Job(asyncio.ensure_future(train())).events():
        print(event.decode(), flush=True)
    await asyncio.sleep(30)
    print("lived")
    service.kill()

asyncio.run(main())
"""


def life(
    asks: str, token: str = "a-token", lost_s: float = 0.4, times: int = 6000
) -> subprocess.CompletedProcess[str]:
    """A trainer that ends so long after its client was last heard of, asked every 0.1 s.

    Args:
        asks: the status that the client is answered with; `served` for nobody who asks.
        times: how often it is asked; six thousand are ten minutes.
    """
    command = [sys.executable, "-c", _ALONE, asks, token, str(lost_s), str(times)]
    return subprocess.run(command, capture_output=True, text=True, timeout=patience_s())


def test_a_trainer_lives_as_long_as_its_client_is_served() -> None:
    assert "lived" in life("200", lost_s=3, times=45).stdout


@pytest.mark.parametrize(
    ("asks", "token"), [("404", "a-token"), ("200", "another"), ("served", "a-token")]
)
def test_neither_who_is_refused_nor_the_servers_lifespan_keeps_a_trainer_alive(
    asks: str, token: str
) -> None:
    done = life(asks, token)
    assert "lived" not in done.stdout
    assert done.returncode == -15, done.stderr


@pytest.mark.parametrize(
    ("pieces", "lives"),
    [(("half", "whole"), True), (("half",) * 6 + ("whole",), True), (("half",), False)],
)
def test_a_slow_request_and_its_answer_keep_a_trainer_alive_and_half_a_request_does_not(
    pieces: tuple[str, ...], lives: bool
) -> None:
    """A client that is lost in mid-request may leave the connection to it standing for hours."""
    command = [sys.executable, "-c", _UPLOADING, *pieces]
    done = subprocess.run(command, capture_output=True, text=True, timeout=patience_s())
    assert ("lived" in done.stdout) == lives, done.stderr
    assert lives or done.returncode == -15


def test_a_training_that_fails_is_told_of_before_the_trainer_ends() -> None:
    command = [sys.executable, "-c", _FAILING]
    trainer = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said, log = trainer.communicate(timeout=patience_s())
    assert "backend failed: RuntimeError: the GPU is full" in said
    assert "lived" not in said
    assert trainer.returncode == 70, log


async def test_a_training_without_progress_is_hung(monkeypatch: pytest.MonkeyPatch) -> None:
    def end_process(reason: str) -> NoReturn:
        raise SystemExit(reason)

    monkeypatch.setattr(jobs, "end_process", end_process)
    assert [one["step"] async for one in watch_steps(steps(3, 0), "Training")] == [0, 1, 2]
    monkeypatch.setattr(jobs, "_STALL_S", 0.05)
    with pytest.raises(SystemExit, match="Training showed no progress"):
        async for _ in watch_steps(steps(3, 5), "Training"):
            pass


async def steps(count: int, pause_s: float) -> AsyncIterator[dict[str, float]]:
    for step in range(count):
        await asyncio.sleep(pause_s)
        yield {"step": step}
