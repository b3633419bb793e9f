"""Giving machines back, against a stand-in for SkyPilot's SDK."""

import asyncio
import importlib
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from precis.cluster import api
from precis.cluster.keys import Keys, cluster_name, read_keys, write_keys
from precis.cluster.site import HourlyPrice
from precis.cluster.sweep import down_cluster, sweep
from precis.errors import ClusterError, ConfigError, NoCapacity
from precis.runs.lease import leased
from precis.store import open_store
from precis.store.s3_client import client_for
from tests.services.patience import patience_s, until


@cache
def skypilot() -> Any:
    """SkyPilot's exceptions; a second and a half to import."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own, of names that SQLAlchemy has moved
        return importlib.import_module("sky.exceptions")


@pytest.fixture(scope="module", autouse=True)
def imported() -> None:
    skypilot()


class Sdk:
    """SkyPilot's client, with some clusters; a request is its own result."""

    def __init__(self, **clusters: dict[str, Any]) -> None:
        self.records = {
            name.replace("_", "-"): record(name.replace("_", "-"), **about)
            for name, about in clusters.items()
        }
        self.broken: dict[str, Exception] = {}

    def status(self, names: list[str] | None, refresh: Any) -> Any:
        return [one for name, one in self.records.items() if names is None or name in names]

    def down(self, name: str) -> Any:
        return ("down", name)

    def get(self, request: Any) -> Any:
        if not isinstance(request, tuple):
            return request
        _, name = request
        if name not in self.records:
            raise skypilot().ClusterDoesNotExist(name)
        if name in self.broken:
            raise self.broken[name]
        return self.records.pop(name)


def record(name: str, envs: dict[str, str] | None = None, age_h: float = 5) -> Any:
    resources = SimpleNamespace(
        infra=SimpleNamespace(to_str=lambda: "runpod"),
        get_cost=lambda seconds: seconds / 1800,
        copy=lambda use_spot: SimpleNamespace(get_cost=lambda seconds: seconds / 900),
    )
    return SimpleNamespace(
        name=name,
        status=SimpleNamespace(value="UP"),
        handle=SimpleNamespace(launched_resources=resources),
        launched_at=time.time() - age_h * 3600,
        last_creation_yaml=yaml.safe_dump({"envs": envs}) if envs else None,
    )


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "store")


def use(sdk: Sdk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "sdk", lambda: sdk)


def of(model: str, store: str) -> dict[str, Any]:
    return {"envs": {"PRECIS_MODEL": model, "PRECIS_STORE": store}}


async def test_only_machines_of_ours_that_no_live_run_holds_are_taken_down(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that can't be taken down does not keep the others."""
    idle = of("idle", store)
    sdk = Sdk(
        precis_out=idle,
        precis_theirs=idle,
        precis_nowhere=of("idle", "s3://"),
        precis_idle=idle,
        precis_busy=of("busy", store),
        precis_young={**of("young", store), "age_h": 0.5},
        precis_odd={},
        precis_away={"envs": {**idle["envs"], "AWS_ENDPOINT_URL": "https://r2.example"}},
        somebody=idle,
    )
    sdk.broken["precis-out"] = RuntimeError("\x1b[31mThe cloud is out.\x1b[0m")
    # Another account's: no retry helps.
    sdk.broken["precis-theirs"] = skypilot().ClusterOwnerIdentityMismatchError("Not yours.")
    use(sdk, monkeypatch)
    write_keys("precis-idle", Keys.new())
    async with leased(open_store(store), "busy", "a run"):
        swept = {one.cluster: one for one in await sweep(spare_hours=1)}
    assert {name: one.done for name, one in swept.items()} == {
        "precis-out": "failed",
        "precis-theirs": "failed",
        "precis-nowhere": "failed",
        "precis-idle": "taken down",
        "precis-busy": "kept",
        "precis-young": "kept",
        "precis-odd": "kept",
        "precis-away": "kept",
    }
    assert swept["precis-out"].why == "SkyPilot failed: The cloud is out."
    assert swept["precis-theirs"].why == "SkyPilot refuses: Not yours."
    assert "a run" in swept["precis-busy"].why
    assert swept["precis-idle"].usd_per_hour == pytest.approx(2.0)
    assert set(sdk.records) == {"somebody", *swept} - {"precis-idle"}
    assert read_keys("precis-idle") is None
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    client_for.cache_clear()
    swept = {one.cluster: one for one in await sweep(spare_hours=0)}
    del swept["precis-odd"]
    assert all("AWS_PROFILE" in one.why for one in swept.values())


async def test_a_machine_at_work_is_taken_down_by_force_only(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = cluster_name("m", store)
    sdk = Sdk(**{name: of("m", store)})
    use(sdk, monkeypatch)
    async with leased(open_store(store), "m", "a run"):
        with pytest.raises(ConfigError, match="in use by the run a run"):
            await down_cluster("m", store)
        assert await down_cluster("m", store, force=True) == f"The machine {name} is gone."
    assert not sdk.records
    # Perhaps of another model than was meant, whose machine then is still up.
    told = f"There is no machine {name}, that of the model 'm' in {open_store(store).url}: "
    assert (await down_cluster("m", store)).startswith(told)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("ResourcesUnavailableError", NoCapacity),
        ("ResourcesMismatchError", ClusterError),  # the machine is replaced
        ("NoCloudAccessError", ConfigError),
    ],
)
async def test_skypilots_errors_are_told_apart_by_what_helps(
    theirs: str, ours: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing(Sdk):
        def get(self, request: Any) -> Any:
            raise getattr(skypilot(), theirs)("None of them.")

    use(Refusing(), monkeypatch)
    with pytest.raises(ours, match="None of them") as raised:
        await api.find("precis-a")
    assert type(raised.value) is ours


class Slow(Sdk):
    """It answers nothing until it is `released`, as a request does that is taken back."""

    def __init__(self, *, takes_back: bool = True) -> None:
        super().__init__()
        self.asked = threading.Event()
        self.released = threading.Event()
        self.taken_back: list[Any] = []
        self._takes_back = takes_back

    def down(self, name: str) -> Any:
        return "a request"

    def get(self, request: Any) -> Any:
        self.asked.set()
        self.released.wait(patience_s())

    def stream_and_get(self, request: Any, output_stream: Any) -> Any:
        raise ConnectionError("It was reset.")

    def api_cancel(self, requests: list[Any], silent: bool) -> None:
        if self._takes_back:
            self.taken_back.extend(requests)
        self.released.set()
        if not self._takes_back:
            raise ConnectionError("The API server is gone.")


@pytest.mark.parametrize("takes_back", [True, False])
async def test_a_request_that_takes_too_long_is_taken_back_if_that_can_be(
    takes_back: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cancelled run must not rent again because SkyPilot's server is gone. Nor may a request that
    hangs keep the lease from being renewed, in a thread too, of which there are few."""
    slow = Slow(takes_back=takes_back)
    use(slow, monkeypatch)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    asking = asyncio.create_task(api.call(lambda: "a request", 0.2))
    await until(slow.asked.is_set, "the request")
    async with asyncio.timeout(patience_s()):
        assert await asyncio.to_thread(lambda: "renewed")
    with pytest.raises(ClusterError, match="did not answer within 0 s"):
        await asking
    await until(slow.released.is_set, "the request's end")  # it may have been sent just then
    assert slow.taken_back == (["a request"] if takes_back else [])
    slow.released.clear()
    calling = asyncio.create_task(api.call(lambda: "another"))
    await asyncio.sleep(0.05)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling


@pytest.mark.parametrize("takes_back", [True, False])
async def test_a_launch_whose_answer_is_lost_is_taken_back_before_another_try(
    takes_back: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else both may launch the managed job of a run."""
    slow = Slow(takes_back=takes_back)
    use(slow, monkeypatch)
    with pytest.raises(ClusterError, match="It was reset"):
        await api.call(lambda: "a launch", 60, print)
    assert slow.released.is_set()
    assert slow.taken_back == (["a launch"] if takes_back else [])


async def test_a_request_given_up_while_sent_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a machine would come up for a run that was cancelled meanwhile."""
    given_up = threading.Event()
    slow = Slow()

    def submit() -> str:
        assert given_up.wait(patience_s())
        return "a request"

    use(slow, monkeypatch)
    with pytest.raises(ClusterError, match="did not answer"):
        await api.call(submit, 0.1)
    given_up.set()
    await until(lambda: slow.taken_back == ["a request"], "its cancellation")


async def test_a_machine_goes_down_though_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would be paid for until its autostop."""
    slow = Slow()
    use(slow, monkeypatch)
    monkeypatch.setattr(api, "_DOWN_S", 0.2)
    try:
        with pytest.raises(ClusterError, match="did not answer within"):
            await api.down("precis-a")
        going_down = asyncio.create_task(api.down("precis-a"))
        await asyncio.sleep(0.05)
        going_down.cancel()
        with pytest.raises(asyncio.CancelledError):
            await going_down
    finally:
        slow.released.set()
    assert not slow.taken_back


async def test_a_machine_without_a_price_is_listed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def unpriced(_: float) -> float:
        raise ValueError("No Price found for instance type '1x_H100'.")

    sdk = Sdk(precis_a={}, precis_b={})
    for one in sdk.records.values():
        one.handle.launched_resources.copy = lambda use_spot: SimpleNamespace(get_cost=unpriced)
    sdk.records["precis-b"].handle.launched_resources.get_cost = unpriced
    use(sdk, monkeypatch)
    prices = [one.price for one in await api.list_clusters()]
    assert prices == [HourlyPrice(2.0, 2.0), HourlyPrice(0.0, 0.0)]


async def test_without_skypilot_its_installation_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sky", "sky.client"):
        monkeypatch.setitem(sys.modules, name, None)
    api.sdk.cache_clear()
    with pytest.raises(ConfigError, match=r"^SkyPilot is not.*make install-sky"):
        await api.find("precis-a")
