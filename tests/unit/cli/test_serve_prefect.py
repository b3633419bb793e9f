"""When a Prefect server that was left up ends by itself."""

import threading
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from cli import serve_prefect
from cli.serve_prefect import LastUse, end_when_unused

HOUR = 3600.0


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("path", "kind", "lasts", "idle_during", "idle_after"),
    [
        ("/api/flow_runs/filter", "http", 0, 0, 0),
        ("/api/health", "http", 0, 5, 5),
        ("/api/events/in", "websocket", 99, 0, 0),
    ],
)
async def test_whoever_asks_for_anything_but_its_health_uses_the_server(
    path: str, kind: str, lasts: int, idle_during: int, idle_after: int
) -> None:
    clock = Clock()
    use = LastUse(clock)
    clock.now = 5 * HOUR
    assert use.idle_s == 5 * HOUR

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        clock.now += lasts * HOUR
        assert use.idle_s == idle_during * HOUR

    nothing: Any = None
    await use.around(app)({"type": kind, "path": path}, nothing, nothing)
    assert use.idle_s == idle_after * HOUR


def watch(lock: Path, use: LastUse, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Watch for three looks; the reasons to end."""
    monkeypatch.setattr(serve_prefect, "_LOOK_S", 0.0)
    said: list[str] = []

    class Looks(threading.Event):
        left = 3

        def wait(self, timeout: float | None = None) -> bool:
            self.left -= 1
            return self.left < 0

    end_when_unused(lock, use, said.append, Looks())
    return said


@pytest.mark.parametrize(
    ("hours", "reasons"),
    [(23, []), (24.1, ["For 24 hours nobody has asked for anything."])],
)
def test_a_server_that_nobody_has_used_for_a_day_ends(
    hours: float, reasons: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "server.pid").touch()
    clock = Clock()
    use = LastUse(clock)
    clock.now = hours * HOUR
    assert watch(tmp_path / "server.pid", use, monkeypatch) == reasons


def test_a_server_whose_folder_is_gone_or_another_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = tmp_path / "server.pid"
    lock.touch()

    class Removed(LastUse):
        @property
        def idle_s(self) -> float:
            lock.rename(lock.with_name("moved"))
            return 0.0

    assert watch(lock, Removed(Clock()), monkeypatch) == [f"{tmp_path} is gone."]
