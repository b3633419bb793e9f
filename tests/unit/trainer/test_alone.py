"""A trainer that its client has left, and one whose training hangs or fails."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any, NoReturn

import pytest

from precis.trainer import guard, jobs
from precis.trainer.guard import Guard
from precis.trainer.jobs import Job, end_after_answer, watch_steps
from precis.trainer.protocol import Json
from tests.services.patience import patience_s, until

LOST_S = 1.5


class Clock:
    """Stands for the modules `time` and `os`: seconds pass where a test says so, however busy the
    machine, and the process that ends is noted, which these tests share and so need."""

    getpid = staticmethod(os.getpid)

    def __init__(self) -> None:
        self.now = 0.0
        self.looks = 0
        self.stopping = False
        self.ended = threading.Event()

    def monotonic(self) -> float:
        return self.now

    def sleep(self, _: float) -> None:
        self.looks += 1
        time.sleep(0.001)

    def kill(self, process: int, sent: int) -> None:
        self.stopping = (process, sent) == (os.getpid(), signal.SIGTERM)

    def _exit(self, _: int) -> None:
        self.ended.set()

    async def advance(self, seconds: float) -> None:
        """Let time pass, and the guard see that it has."""
        self.now += seconds
        seen = self.looks + 1
        await until(lambda: self.looks > seen or self.ended.is_set(), "the guard's look")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    clock = Clock()
    monkeypatch.setattr(guard, "time", clock)
    monkeypatch.setattr(guard, "os", clock)
    yield clock
    clock.now += 10 * LOST_S
    assert clock.ended.wait(patience_s()), "a trainer without a client lives on"
    assert clock.stopping, "it has no time for an orderly stop"


@pytest.fixture
def trainer(clock: Clock) -> Guard:
    """Answers with the status that is asked for at once, or with 200 long after the request."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await receive()
        status = 200 if scope["path"] == "slow" else int(scope["path"])
        if scope["path"] == "slow":
            while (await receive())["more_body"]:
                pass
            await clock.advance(2 * LOST_S)
        await send({"type": "http.response.start", "status": status, "headers": []})

    return Guard(app, "a-token", LOST_S)


async def send(message: Any) -> None:
    pass


async def ask(trainer: Guard, path: str, token: str, *pieces: Any) -> None:
    """Send a request in so many pieces, each of which says whether more come, as soon as there."""
    left = list(pieces)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"x", "more_body": await left.pop(0)}

    headers = [(b"authorization", b"Bearer " + token.encode())]
    await trainer({"type": "http", "path": path, "headers": headers}, receive, send)


@pytest.mark.parametrize(
    ("asks", "token", "lives"),
    [("200", "a-token", True), ("404", "a-token", False), ("200", "another", False)],
)
async def test_a_trainer_lives_as_long_as_its_client_is_served(
    asks: str, token: str, lives: bool, trainer: Guard, clock: Clock
) -> None:
    for _ in range(25):
        await ask(trainer, asks, token)
        await clock.advance(0.1)
    assert clock.ended.is_set() != lives


async def test_the_servers_lifespan_keeps_no_trainer_alive(trainer: Guard, clock: Clock) -> None:
    scope = {"type": "lifespan"}  # as uvicorn has it: one, as long as the process
    receive: Any = asyncio.Event().wait
    serving = asyncio.create_task(trainer(scope, receive, send))
    await clock.advance(2 * LOST_S)
    await until(clock.ended.is_set, "the trainer's end")
    serving.cancel()


@pytest.mark.parametrize(
    ("pieces", "lives"), [((True, False), True), ((True,) * 6 + (False,), True), ((True,), False)]
)
async def test_a_slow_request_and_its_answer_keep_a_trainer_alive_and_half_a_request_does_not(
    pieces: tuple[bool, ...], lives: bool, trainer: Guard, clock: Clock
) -> None:
    """A client that is lost in mid-request may leave the connection to it standing for hours."""

    async def come(has_more: bool) -> bool:
        await clock.advance(0.3)
        return has_more

    async def never() -> None:
        await clock.advance(2 * LOST_S)
        await asyncio.Event().wait()

    coming = [*map(come, pieces), *([] if lives else [never()])]
    asking = asyncio.create_task(ask(trainer, "slow", "a-token", *coming))
    await until(lambda: asking.done() or clock.ended.is_set(), "an end")
    assert (asking.done(), clock.ended.is_set()) == (lives, not lives)
    asking.cancel()


async def test_a_failed_training_is_told_before_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []
    monkeypatch.setattr(jobs, "end_process", ended.append)

    async def train() -> Json:
        end_after_answer("Training step 0 of m failed")
        raise RuntimeError("the GPU is full")

    events = [event async for event in Job(asyncio.ensure_future(train())).events()]
    assert b"backend failed: RuntimeError: the GPU is full" in events[-1]
    assert not ended
    await until(lambda: ended, "the trainer's end")


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
