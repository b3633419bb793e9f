"""A machine that comes up, against stand-ins for SkyPilot and ssh."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from precis.cluster import api, skypilot
from precis.cluster.keys import Keys
from precis.cluster.skypilot import SkyPilotHost
from precis.cluster.task import Work
from precis.errors import ClusterError
from precis.settings.cluster import ClusterConfig


class Tunnel:
    """To a trainer on this machine."""

    url = "http://127.0.0.1:9"

    def __init__(self, *_: object) -> None: ...

    def open(self) -> None: ...

    async def close(self) -> None: ...


@pytest.mark.parametrize(("failures", "is_lost"), [(1, False), (5, False), (6, True)])
async def test_a_look_at_the_job_may_fail_while_the_trainer_is_installed(
    failures: int, is_lost: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a dropped call would take down a machine that was hard to get."""
    looks = 0

    async def job_status(name: str, job: int) -> str:
        nonlocal looks
        looks += 1
        if 2 <= looks < 2 + failures:
            raise ClusterError("SkyPilot failed: connection reset.")
        return "RUNNING"

    async def answers(*_: object) -> bool:
        await asyncio.sleep(0.01)
        return looks > 10

    async def ping(*_: object) -> None: ...

    unasked: Any = None
    monkeypatch.setattr(api, "job_status", job_status)
    monkeypatch.setattr(api, "follow_log", lambda *_: None)
    monkeypatch.setattr(skypilot, "_JOB_S", 0.001)
    monkeypatch.setattr(skypilot, "Tunnel", Tunnel)
    monkeypatch.setattr(skypilot, "answers", answers)
    monkeypatch.setattr(skypilot, "_ping", ping)
    work = Work("m", "s3://bucket/runs", "extractive", 1)
    host = SkyPilotHost(work, ClusterConfig(), tmp_path, unasked)
    keys = Keys.new()
    if is_lost:
        with pytest.raises(ClusterError, match="connection reset"):
            await host._await_trainer(keys, 1)
        return
    address = await host._await_trainer(keys, 1)
    assert (address.url, address.token) == (Tunnel.url, keys.token)
