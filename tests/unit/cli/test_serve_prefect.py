"""When a Prefect server that was left up ends by itself."""

import threading
from pathlib import Path

import pytest
from starlette.types import Message, Receive, Scope, Send

from cli import serve_prefect
from cli.serve_prefect import LastUse, end_when_unused

HOUR = 3600.0


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    path = tmp_path / "prefect" / "server.pid"
    path.parent.mkdir()
    path.touch()
    return path


async def _no_message() -> Message:
    raise AssertionError("Nothing is received.")


async def _nowhere(message: Message) -> None:
    raise AssertionError("Nothing is sent.")


async def ask(
    use: LastUse, clock: Clock, path: str, kind: str = "http", lasts_s: float = 0
) -> float:
    """Ask for a path; how long the server counts as idle in the middle of it."""
    found: list[float] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        clock.now += lasts_s
        found.append(use.idle_s)

    await use.around(app)({"type": kind, "path": path}, _no_message, _nowhere)
    return found[0]


async def test_whoever_asks_for_anything_uses_the_server(clock: Clock) -> None:
    use = LastUse(clock)
    clock.now = 5 * HOUR
    assert use.idle_s == 5 * HOUR
    await ask(use, clock, "/api/flow_runs/filter")
    assert use.idle_s == 0


async def test_a_look_at_its_health_is_no_use(clock: Clock) -> None:
    use = LastUse(clock)
    clock.now = 5 * HOUR
    await ask(use, clock, "/api/health")
    assert use.idle_s == 5 * HOUR


async def test_a_connection_is_used_as_long_as_it_lasts(clock: Clock) -> None:
    use = LastUse(clock)
    assert await ask(use, clock, "/api/events/in", "websocket", lasts_s=99 * HOUR) == 0
    assert use.idle_s == 0


def watch(lock: Path, use: LastUse, monkeypatch: pytest.MonkeyPatch, looks: int = 3) -> list[str]:
    """Watch for so many looks; the reasons to end."""
    monkeypatch.setattr(serve_prefect, "_LOOK_S", 0.0)
    said: list[str] = []

    class Looks(threading.Event):
        left = looks

        def wait(self, timeout: float | None = None) -> bool:
            self.left -= 1
            return self.left < 0

    end_when_unused(lock, use, said.append, Looks())
    return said


def test_a_server_that_is_used_goes_on(
    lock: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    use = LastUse(clock)
    clock.now = 23 * HOUR
    assert watch(lock, use, monkeypatch) == []


def test_a_server_that_nobody_has_used_for_a_day_ends(
    lock: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    use = LastUse(clock)
    clock.now = 24.1 * HOUR
    assert watch(lock, use, monkeypatch) == ["For 24 hours nobody has asked for anything."]


def test_a_server_whose_folder_is_gone_or_another_ends(
    lock: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Removed(LastUse):
        @property
        def idle_s(self) -> float:
            lock.rename(lock.with_name("moved"))
            return 0.0

    assert watch(lock, Removed(clock), monkeypatch) == [f"{lock.parent} is gone."]
