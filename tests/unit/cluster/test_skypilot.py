"""A machine that comes up, against stand-ins for SkyPilot and ssh."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from precis.cluster import api, skypilot, task
from precis.cluster.keys import Keys
from precis.cluster.skypilot import SkyPilotHost
from precis.cluster.task import Work
from precis.errors import ClusterError, ConfigError, LeaseLost
from precis.run.lease import leased
from precis.settings.cluster import ClusterConfig
from precis.store import FolderStore


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


async def test_a_machine_is_left_to_a_run_that_took_over_while_it_came_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All runs of a model have the same machine."""
    store = FolderStore(tmp_path / "store")
    launched: list[str] = []
    ended: list[str] = []
    taken_down: list[str] = []

    async def find(*_: object, **__: object) -> Any:
        return SimpleNamespace(status="UP") if len(launched) == 2 else None

    async def end_jobs(name: str) -> None:
        ended.append(name)

    async def down(name: str) -> None:
        taken_down.append(name)

    monkeypatch.setattr(api, "find", find)
    monkeypatch.setattr(api, "down", down)
    monkeypatch.setattr(api, "end_jobs", end_jobs)
    monkeypatch.setattr(skypilot, "require_ssh", lambda: None)
    monkeypatch.setattr(skypilot, "Tunnel", Tunnel)
    monkeypatch.setattr(skypilot, "_FOUND_S", 0.01)
    monkeypatch.setattr(skypilot, "trainer_task", lambda *_: None)
    work = Work("m", "s3://bucket/runs", "extractive", 1)
    async with AsyncExitStack() as later, leased(store, "m", "first") as lease:

        async def launch(task: object, name: str, *_: object) -> int:
            launched.append(name)
            if len(launched) == 2:
                await later.enter_async_context(leased(store, "m", "second", take_over=True))
            raise ClusterError("The trainer ended (CANCELLED) before it answered.")

        monkeypatch.setattr(api, "launch", launch)
        host = SkyPilotHost(work, ClusterConfig(), tmp_path, lambda _: None, lease)
        with pytest.raises(ClusterError, match="CANCELLED"):
            await host.up()
        assert taken_down == [host.name]  # nobody else has it
        with pytest.raises(ClusterError, match="CANCELLED"):
            await host.up()
        with pytest.raises(LeaseLost):
            await host.up()
    assert len(launched) == 2
    assert not ended
    assert taken_down == [host.name]


async def test_no_machine_is_rented_from_one_without_ssh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be paid for until it is clear that its trainer can't be reached."""
    launched: list[str] = []

    async def find(*_: object, **__: object) -> None: ...

    async def launch(task: object, name: str, *_: object) -> int:
        launched.append(name)
        return 1

    async def down(name: str) -> None: ...

    monkeypatch.setattr(api, "find", find)
    monkeypatch.setattr(api, "launch", launch)
    monkeypatch.setattr(api, "down", down)
    monkeypatch.setattr(api, "follow_log", lambda *_: None)
    monkeypatch.setattr(skypilot, "trainer_task", lambda *_: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    work = Work("m", "s3://bucket/runs", "extractive", 1)
    config = ClusterConfig(answer_timeout_s=0.3)
    host = SkyPilotHost(work, config, tmp_path, lambda _: None)
    with pytest.raises(ConfigError, match="no ssh"):
        await host.up()
    assert not launched


async def test_a_machine_that_may_be_left_behind_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def find(*_: object, **__: object) -> None: ...

    async def launch(*_: object) -> int:
        raise ClusterError("The trainer ended before it answered.")

    async def down(name: str) -> None:
        raise ConfigError("SkyPilot refuses: the key was withdrawn.")

    monkeypatch.setattr(api, "find", find)
    monkeypatch.setattr(api, "launch", launch)
    monkeypatch.setattr(api, "down", down)
    monkeypatch.setattr(skypilot, "require_ssh", lambda: None)
    monkeypatch.setattr(skypilot, "trainer_task", lambda *_: None)
    said: list[str] = []
    work = Work("m", "s3://bucket/runs", "extractive", 1)
    host = SkyPilotHost(work, ClusterConfig(), tmp_path, said.append)
    with pytest.raises(ClusterError, match="ended before it answered"):
        await host.up()
    assert f"Run `sky down {host.name}`" in said[-1]


@dataclass
class Rented:
    """A machine that is up, what was done to the trainer on it, and the code that it is sent."""

    code: Path
    ended: int = 0
    launched: int = 0
    answers: bool = True


@pytest.fixture
def rented(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rented:
    code = tmp_path / "checkout" / "precis" / "trainer.py"
    code.parent.mkdir(parents=True)
    code.write_text("1")
    (code.parent / ".#trainer.py").symlink_to("me@host.1")  # Emacs marks so what it changes
    machine = Rented(code)

    async def find(*_: object, **__: object) -> Any:
        return SimpleNamespace(status="UP", infra="", price=None)

    async def end_jobs(name: str) -> None:
        machine.ended += 1

    async def launch(*_: object) -> int:
        machine.launched += 1
        machine.answers = True
        return 1

    async def answers(*_: object) -> bool:
        return machine.answers

    monkeypatch.setattr(task, "CHECKOUT", tmp_path / "checkout")
    monkeypatch.setattr(task, "TASK", tmp_path / "checkout" / "trainer.sky.yaml")
    monkeypatch.setattr(api, "find", find)
    monkeypatch.setattr(api, "end_jobs", end_jobs)
    monkeypatch.setattr(api, "launch", launch)
    monkeypatch.setattr(api, "follow_log", lambda *_: None)
    monkeypatch.setattr(skypilot, "require_ssh", lambda: None)
    monkeypatch.setattr(skypilot, "Tunnel", Tunnel)
    monkeypatch.setattr(skypilot, "answers", answers)
    monkeypatch.setattr(skypilot, "trainer_task", lambda *_: None)
    return machine


@pytest.mark.parametrize(
    "changed",
    [None, "backend", "seed", "code", "client_lost_s", "gpu"],
    ids=lambda changed: changed or "none",
)
async def test_a_trainer_of_a_kept_machine_is_replaced_if_it_was_started_differently(
    changed: str | None, rented: Rented, tmp_path: Path
) -> None:
    work = Work("m", "s3://bucket/runs", "extractive", 1)
    config = ClusterConfig()
    said: list[str] = []
    host = SkyPilotHost(work, config, tmp_path, said.append)
    first = await host.up()
    await host.leave()
    assert (rented.ended, rented.launched) == (1, 1)  # nobody here had started one
    if changed == "client_lost_s":
        config = ClusterConfig(client_lost_s=77)
    if changed == "gpu":
        config = ClusterConfig(gpu="H200:1")
    if changed == "backend":
        work = replace(work, backend="tool_calls")
    if changed == "seed":
        work = replace(work, seed=2)
    if changed == "code":
        rented.code.write_text("2")
        assert await host.up() == first  # a run goes on with the trainer that it has started
        await host.leave()
    again = SkyPilotHost(work, config, tmp_path, said.append)
    second = await again.up()
    await again.leave()
    assert (second == first) == (changed is None)
    replaced = 0 if changed is None else 1
    assert (rented.ended, rented.launched) == (1 + replaced, 1 + replaced)
    assert any("other settings or code" in line for line in said) == (changed is not None)


async def test_a_trainer_is_known_by_the_code_that_it_was_sent_and_not_by_that_of_the_runs_start(
    rented: Rented, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The code was changed during the run, and then the trainer was lost."""
    monkeypatch.setattr(skypilot, "_FOUND_S", 0.01)
    work = Work("m", "s3://bucket/runs", "extractive", 1)
    host = SkyPilotHost(work, ClusterConfig(), tmp_path, lambda _: None)
    await host.up()
    rented.code.write_text("2")
    rented.answers = False
    started = await host.up()
    assert rented.launched == 2
    assert await host.up() == started
    await host.leave()
    again = SkyPilotHost(work, ClusterConfig(), tmp_path, lambda _: None)
    assert await again.up() == started
    await again.leave()
    assert rented.launched == 2
