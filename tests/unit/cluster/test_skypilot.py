"""A machine that comes up, against stand-ins for SkyPilot and ssh."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from precis.cluster import api, skypilot, task
from precis.cluster.api import Cluster
from precis.cluster.keys import read_keys
from precis.cluster.site import HourlyPrice
from precis.cluster.skypilot import SkyPilotHost
from precis.config import RunConfig
from precis.errors import ClusterError, ConfigError, LeaseLost
from precis.runs.lease import Lease, lease_key, leased
from precis.store import FolderStore
from tests.services.patience import until
from tests.support.programs import put_program


class Tunnel:
    """To a trainer on this machine."""

    url = "http://127.0.0.1:9"
    opened = 0

    def __init__(self, *_: object) -> None:
        Tunnel.opened += 1

    async def close(self) -> None:
        Tunnel.opened -= 1


@dataclass
class Cloud:
    """The model's machine, what was done with it, and the code that it is sent."""

    code: Path
    is_up: bool = False
    status: str = "UP"
    now: float = 1_000_000.0
    launched_at: float = 0.0
    answers: bool = True
    asked: int = 0
    found: int = 0
    launched: int = 0
    ended: int = 0
    taken_down: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    at_launch: Callable[[], Awaitable[None]] | None = None

    async def find(self, name: str, *, refresh: bool = False) -> Any:
        self.found += 1
        known = Cluster(name, self.status, "", HourlyPrice(2.0, 2.0), self.launched_at, {})
        return known if self.is_up else None

    async def launch(self, *_: object) -> int:
        self.launched += 1
        self.is_up = self.answers = True
        self.launched_at = self.now
        if self.at_launch is not None:
            await self.at_launch()
        self.now += 1800
        return 1

    async def end_jobs(self, name: str) -> None:
        self.ended += 1

    async def down(self, name: str) -> None:
        self.taken_down.append(name)
        self.is_up = False

    async def answer(self, *_: object) -> bool:
        self.asked += 1
        if not self.answers:
            await asyncio.sleep(0.02)
        return self.answers

    def host(self, lease: Lease | None = None, **given: Any) -> SkyPilotHost:
        config = RunConfig.model_validate({"model": "m", "store": "s3://bucket/runs", **given})
        return SkyPilotHost(config, self.said.append, lease)


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    code = tmp_path / "checkout" / "precis" / "trainer.py"
    code.parent.mkdir(parents=True)
    code.write_text("1")
    (code.parent / ".#trainer.py").symlink_to("me@host.1")  # Emacs marks so what it changes
    cloud = Cloud(code)
    clock = SimpleNamespace(time=lambda: cloud.now, monotonic=time.monotonic)
    monkeypatch.setattr(skypilot, "time", clock)
    for name in ("find", "launch", "end_jobs", "down"):
        monkeypatch.setattr(api, name, getattr(cloud, name))
    monkeypatch.setattr(api, "follow_log", lambda *_: None)
    monkeypatch.setattr(skypilot, "answers", cloud.answer)
    monkeypatch.setattr(skypilot, "Tunnel", Tunnel)
    monkeypatch.setattr(skypilot, "trainer_task", lambda *_: None)
    monkeypatch.setattr(skypilot, "_FOUND_S", 0.01)
    monkeypatch.setattr(task, "CHECKOUT", tmp_path / "checkout")
    monkeypatch.setattr(task, "TASK", tmp_path / "checkout" / "trainer.sky.yaml")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    put_program(tmp_path, "ssh", "exit 1")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(Tunnel, "opened", 0)
    yield cloud
    assert not Tunnel.opened, "each is closed in the end"


@pytest.mark.parametrize(("failures", "is_lost"), [(1, False), (5, False), (6, True)])
async def test_a_look_at_the_job_may_fail_while_the_trainer_is_installed(
    failures: int, is_lost: bool, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a dropped call would take down a machine that was hard to get."""
    looks = 0

    async def job_status(name: str, job: int) -> str:
        nonlocal looks
        looks += 1
        cloud.answers = looks > 10
        if 2 <= looks < 2 + failures:
            raise ClusterError("SkyPilot failed: connection reset.")
        return "RUNNING"

    async def install() -> None:
        cloud.answers = False

    monkeypatch.setattr(api, "job_status", job_status)
    monkeypatch.setattr(skypilot, "_JOB_S", 0.001)
    cloud.at_launch = install
    host = cloud.host()
    with pytest.raises(ClusterError, match="connection reset") if is_lost else nullcontext():
        address = await host.up()
        keys = read_keys(host.name)
        assert keys and (address.url, address.token) == (Tunnel.url, keys.token)
    await host.leave()


async def test_a_trainer_hears_of_its_client(cloud: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rented machine ends when no client has called for long."""
    monkeypatch.setattr(skypilot, "_PING_S", 0.001)
    host = cloud.host()
    await host.up()
    await until(lambda: cloud.asked > 5, "pings without a request")
    await host.leave()
    asked = cloud.asked
    await asyncio.sleep(0.05)
    assert cloud.asked == asked


async def test_a_machine_is_left_to_who_took_over(cloud: Cloud, tmp_path: Path) -> None:
    """All runs of a model have the same machine."""
    store = FolderStore(tmp_path / "store")
    async with AsyncExitStack() as later, leased(store, "m", "first") as lease:

        async def end() -> None:
            if cloud.launched == 2:
                await later.enter_async_context(leased(store, "m", "second", take_over=True))
            raise ClusterError("The trainer ended (CANCELLED) before it answered.")

        cloud.at_launch = end
        host = cloud.host(lease=lease)
        with pytest.raises(ClusterError, match="CANCELLED"):
            await host.up()
        assert cloud.taken_down == [host.name]  # nobody else has it
        with pytest.raises(ClusterError, match="CANCELLED"):
            await host.up()
        with pytest.raises(LeaseLost):
            await host.up()
    assert cloud.launched == 2
    assert not cloud.ended
    assert cloud.taken_down == [host.name]


@pytest.mark.parametrize("server_is_here", [True, False])
async def test_a_machine_that_who_took_over_does_not_find_is_taken_down(
    server_is_here: bool, cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere it has a SkyPilot of its own, unless both use a team's server."""
    common = SimpleNamespace(is_api_server_local=lambda: server_is_here)
    for name in ("sky", "sky.server", "sky.server.common"):
        monkeypatch.setitem(sys.modules, name, common)
    store = FolderStore(tmp_path / "store")
    async with leased(store, "m", "first") as lease:
        second = lease.holder.model_copy(update={"run": "second", "machine": "another"})
        store.put(lease_key("m"), second.model_dump_json().encode())
        await cloud.host(lease=lease).down()
    assert bool(cloud.taken_down) == server_is_here


async def test_no_machine_is_rented_from_one_without_ssh(
    cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be paid for until it is clear that its trainer can't be reached."""
    monkeypatch.setenv("PATH", str(tmp_path / "checkout"))
    with pytest.raises(ConfigError, match="no ssh"):
        await cloud.host().up()
    assert not cloud.launched


async def test_a_machine_that_may_be_left_behind_is_named(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def end() -> None:
        raise ClusterError("The trainer ended before it answered.")

    async def refuse(name: str) -> None:
        raise ConfigError("SkyPilot refuses: the key was withdrawn.")

    cloud.at_launch = end
    monkeypatch.setattr(api, "down", refuse)
    host = cloud.host()
    with pytest.raises(ClusterError, match="ended before it answered"):
        await host.up()
    assert f"Run `sky down {host.name}`" in cloud.said[-1]


@pytest.mark.parametrize("launched_before_s", [0, 36_000])
async def test_a_machine_costs_from_its_boot_on_although_its_start_fails(
    launched_before_s: int, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The boot of one that is repaired may be seen with the time of an earlier launch."""

    async def boot() -> None:
        cloud.status = "INIT"
        cloud.launched_at -= launched_before_s
        seen = cloud.found + 2
        await until(lambda: cloud.found > seen, "a look at the machine")
        cloud.now += 1800
        cloud.status, cloud.launched_at, cloud.answers = "UP", cloud.now, False

    async def job_status(name: str, job: int) -> str:
        return "FAILED_SETUP"

    monkeypatch.setattr(skypilot, "_BOOT_S", 0.001)
    monkeypatch.setattr(skypilot, "_JOB_S", 0.001)
    monkeypatch.setattr(api, "job_status", job_status)
    cloud.at_launch = boot
    host = cloud.host()
    with pytest.raises(ClusterError, match="FAILED_SETUP"):
        await host.up()
    assert cloud.taken_down == [host.name]
    assert host.meter.unbooked_usd == pytest.approx(2.0, abs=0.01)
    assert any("costs $2.00 an hour" in line for line in cloud.said)


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"code": "2"},
        {"secret": "rotated"},
        {"seed": 2},
        {"environment": "agent.py"},
        {"cluster": {"client_lost_s": 77}},
        {"cluster": {"gpu": "H200:1"}},
    ],
)
async def test_a_trainer_of_a_kept_machine_is_replaced_if_it_was_started_differently(
    changed: dict[str, Any], cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud.is_up = True
    host = cloud.host()
    first = await host.up()
    await host.leave()
    assert (cloud.ended, cloud.launched) == (1, 1)  # nobody here had started one
    if "code" in changed:
        cloud.code.write_text(changed["code"])
        assert await host.up() == first  # a run goes on with the trainer that it has started
        await host.leave()
    if "secret" in changed:
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", changed["secret"])
    apart = ("code", "secret")
    again = cloud.host(**{name: value for name, value in changed.items() if name not in apart})
    second = await again.up()
    await again.leave()
    assert (second == first) == (not changed)
    replaced = 1 if changed else 0
    assert (cloud.ended, cloud.launched) == (1 + replaced, 1 + replaced)
    assert any("other settings, keys or code" in line for line in cloud.said) == bool(changed)
    counted_usd = again.meter.unbooked_usd
    again.meter.count_before(900)  # when a killed run had booked it last
    assert again.meter.unbooked_usd == pytest.approx(counted_usd + 0.5, abs=0.01)


async def test_a_trainer_is_known_by_the_code_that_it_was_sent(cloud: Cloud) -> None:
    """The code was changed during the run, and then the trainer was lost."""
    host = cloud.host()
    await host.up()
    cloud.code.write_text("2")
    cloud.answers = False
    started = await host.up()
    assert cloud.launched == 2
    assert host.meter.unbooked_usd == pytest.approx(2 * 1.0, abs=0.01)  # of each half an hour
    assert await host.up() == started
    found_usd = host.meter.unbooked_usd
    assert found_usd == pytest.approx(2 * 1.0, abs=0.01)
    assert host.meter.unbooked_usd > found_usd
    await host.leave()
    assert host.meter.unbooked_usd == host.meter.unbooked_usd > found_usd  # it stands still
    again = cloud.host()
    assert await again.up() == started
    await again.leave()
    assert cloud.launched == 2
    assert again.meter.unbooked_usd < 0.5
    again.meter.count_before(900)  # when a killed run had booked it last, 15 minutes ago
    assert again.meter.unbooked_usd == pytest.approx(0.5, abs=0.01)
