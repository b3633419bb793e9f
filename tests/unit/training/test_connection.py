"""A trainer that was started again is called at its new address, and serves what it did before."""

import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from precis.benchmark.contender import ContenderSpec, local_contender
from precis.benchmark.lineup import TrainedLineup
from precis.cluster.site import HourlyPrice, Meter, TrainerAddress, answers, as_variable
from precis.config import BenchmarkConfig, TrainConfig
from precis.errors import ClusterError, LeaseHeld, LeaseLost, TrainerError, TrainerLost
from precis.records.ledger import Metric, load_ledger, write_ledger
from precis.records.spend import Spend
from precis.runs.lease import Lease, check_free, leased
from precis.statistics.standings import Contender
from precis.store import FolderStore
from precis.trainer.client import RemoteTrainer
from precis.trainer.server import trainer_app
from precis.training.connection import TrainerConnection
from precis.training.loop import show_nobody
from precis.training.opening import connect_trainer, open_run
from precis.training.run import trainable
from precis.training.serving import CheckpointServer, serve_checkpoints
from tests.support.ledgers import EMPTY, measured
from tests.support.local_server import serving
from tests.support.trainers import TOKEN, CountingBackend

RENTED: dict[str, Any] = {
    "model": "m",
    "store": "s3://precis/runs",
    "cluster": {"where": "sky", "infra": ["slurm/lab/gpu"]},
}


@pytest.fixture
async def address(tmp_path: Path) -> AsyncIterator[TrainerAddress]:
    """Of a trainer that is up."""
    backend = CountingBackend(tmp_path / "trainer")
    async with serving(trainer_app(backend, backend.path, TOKEN)) as url:
        yield TrainerAddress(url, TOKEN)


@pytest.fixture
def taken_down(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the machines that SkyPilot is asked to take down."""
    names: list[str] = []

    async def take_down(name: str) -> None:
        names.append(name)

    monkeypatch.setattr("precis.cluster.api.down", take_down)
    return names


async def test_a_lost_trainer_is_found_at_its_new_address(
    address: TrainerAddress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("precis.trainer.client._RECONNECTS", (0.0,))
    lost = RemoteTrainer("http://127.0.0.1:9", "an-old-token", tmp_path / "art")
    model = trainable(TrainConfig(model="m"))
    model.inference_base_url, model.inference_api_key = f"{lost.url}/v1", "an-old-token"

    async def start() -> TrainerAddress:
        return address

    async def restore() -> str:
        await model.register(lost)
        return "It is back."

    with pytest.raises(TrainerLost, match="no longer answers") as loss:
        await lost.state(model)
    trainer = TrainerConnection(lost, start, Meter(), losses_max=1)
    await trainer.recover(loss.value, show_nobody, restore)
    assert await model.get_step() == 0
    assert str(model.inference_base_url).startswith(address.url)
    await lost.close()


async def test_no_proxy_is_asked_for_a_trainer(
    address: TrainerAddress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reaches nothing at the near end of a tunnel, and would be shown the token."""
    for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    for variable in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr("precis.trainer.client._RECONNECTS", (0.0,))
    assert await answers(address)
    client = RemoteTrainer(address.url, address.token, tmp_path / "art")
    assert (await client.state(trainable(TrainConfig(model="m")))).checkpoints == {}
    await client.close()


def rented(
    address: TrainerAddress, folder: Path, lease: Lease | None = None, **settings: bool
) -> AbstractAsyncContextManager[TrainerConnection]:
    """A trainer at this address, on a machine that is rented while the block lasts."""

    async def start(*_: object) -> TrainerAddress:
        return address

    cluster = {**RENTED["cluster"], **settings}
    config = TrainConfig.model_validate({**RENTED, "cluster": cluster})
    return connect_trainer(config, folder / "trainer", start=start, lease=lease)


@pytest.mark.parametrize("kept", [False, True])
async def test_a_rented_machine_is_taken_down_after_a_failure_unless_it_is_to_be_kept(
    kept: bool, address: TrainerAddress, tmp_path: Path, taken_down: list[str]
) -> None:
    with pytest.raises(TrainerError, match="The step failed"):
        async with rented(address, tmp_path, keep_on_failure=kept):
            assert not taken_down
            raise TrainerError("The step failed.")
    assert len(taken_down) == (not kept)


@pytest.mark.parametrize("error", [None, TrainerError("The step failed.")])
async def test_a_machine_that_cannot_be_taken_down_does_not_hide_how_its_run_ended(
    error: TrainerError | None,
    address: TrainerAddress,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A Retry of a run that had all its steps would rent another machine."""

    async def refuse(name: str) -> None:
        raise ClusterError("SkyPilot failed: no route to 100 % of hosts.")

    monkeypatch.setattr("precis.cluster.api.down", refuse)
    with pytest.raises(TrainerError, match="The step failed") if error else nullcontext():
        async with rented(address, tmp_path):
            if error:
                raise error
    assert [one.levelname for one in caplog.records] == ["WARNING"]
    assert "no route to 100 % of hosts. Run `sky down precis-m-" in caplog.text


async def test_a_rented_machine_is_left_to_the_run_that_took_the_lease_over(
    address: TrainerAddress, tmp_path: Path, taken_down: list[str]
) -> None:
    store = FolderStore(tmp_path / "store")
    async with leased(store, "m", "first") as lost:
        with pytest.raises(LeaseLost):
            async with (
                rented(address, tmp_path, lost),
                leased(store, "m", "second", take_over=True),
            ):
                await lost.check()
    assert not taken_down
    async with leased(store, "m", "third", take_over=True) as held, rented(address, tmp_path, held):
        pass
    assert len(taken_down) == 1


async def test_a_managed_jobs_machine_costs_from_its_installation_on(
    address: TrainerAddress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start(*_: object) -> TrainerAddress:
        return address

    monkeypatch.setenv("PRECIS_PRICES", as_variable({"runpod": HourlyPrice(2.0, 2.0)}))
    monkeypatch.setenv("SKYPILOT_CLUSTER_INFO", '{"cloud": "RunPod"}')
    monkeypatch.setenv("PRECIS_HELD_SINCE", f"{time.time() - 1800:.0f}")
    config = TrainConfig(model="m", store=str(tmp_path / "store"))
    async with connect_trainer(config, tmp_path / "trainer", start=start) as trainer:
        assert trainer.meter.unbooked_usd == pytest.approx(1.0, abs=0.01)


async def test_what_a_start_that_fails_has_cost_is_in_the_runs_ledger(
    tmp_path: Path,
    taken_down: list[str],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def fail(_: object, host: Any) -> TrainerAddress:
        host.meter.start(HourlyPrice(2.0, 2.0), held_s=1800)
        raise ClusterError("Its installation failed.")

    async def begin() -> None:
        nothing: Any = SimpleNamespace(spend=Spend())
        with pytest.raises(ClusterError):
            async with open_run(TrainConfig.model_validate(RENTED), nothing, "r", start=fail):
                pass

    store = FolderStore(tmp_path)
    monkeypatch.setattr("precis.training.opening.open_store", lambda _: store)
    await begin()
    assert "The $1.00 that this start has cost are in no ledger: The run" in caplog.text
    write_ledger(store, EMPTY.charge(4.0, at=1.0), None)
    began = time.time()
    await begin()
    assert load_ledger(store, "m").usd == pytest.approx(4.0 + 1.0, abs=0.01)
    # If it is killed before the machine is down, the next start counts that from then on.
    assert load_ledger(store, "m").charged_at >= began


NEWEST = Contender("trained", 4)


class Place:
    """Where trainers come up, each at an address of its own; `lost` are gone before they serve."""

    def __init__(self, lost: int = 0) -> None:
        self.started = 0
        self.lost = lost
        self.shown: list[str] = []

    async def start(self) -> TrainerAddress:
        self.started += 1
        return TrainerAddress(f"http://127.0.0.1:{self.started}", "token")

    async def fetch(self, trainer: RemoteTrainer) -> list[ContenderSpec]:
        if self.lost:
            self.lost -= 1
            raise TrainerLost(f"Nobody answers at {trainer.url}.")
        spec = local_contender(NEWEST, "m@4", trainer.url, "token", in_flight=1, identity="digest")
        return [spec]

    async def show(self, name: str, message: str) -> None:
        self.shown.append(name)


async def server_at(place: Place, folder: Path, recoveries_max: int = 3) -> CheckpointServer:
    address = await place.start()
    client = RemoteTrainer(address.url, address.token, folder)
    trainer = TrainerConnection(client, place.start, Meter(), recoveries_max)
    return CheckpointServer(place.fetch, trainer, place.show)


async def test_a_trainer_that_is_lost_while_it_comes_up_is_given_up_after_so_many_losses(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def address_of(spec: ContenderSpec) -> str:
        return spec.endpoint.base_url

    place = Place(lost=2)
    server = await server_at(place, tmp_path)
    await server.fetch()
    assert place.started == 3
    assert await server.with_checkpoint(NEWEST, address_of) == "http://127.0.0.1:3"
    caplog.clear()
    place = Place(lost=9)
    server = await server_at(place, tmp_path, recoveries_max=2)
    with pytest.raises(TrainerLost, match="Nobody answers"):
        await server.fetch()
    assert place.started == 3
    assert len(caplog.messages) == 2


async def test_a_benchmarks_machine_is_held_by_it(tmp_path: Path, taken_down: list[str]) -> None:
    """Else a sweep would take it down, or the benchmark that of a run that trains."""
    place = Place()
    store = FolderStore(tmp_path / "store")
    run: Any = SimpleNamespace(config=BenchmarkConfig.model_validate(RENTED), store=store, name="m")

    async def start(_: object, host: Any) -> TrainerAddress:
        host.meter.start(HourlyPrice(2.0, 2.0), held_s=1800)
        return await place.start()

    async def fetch(_run: object, _lineup: object, trainer: RemoteTrainer) -> list[ContenderSpec]:
        return await place.fetch(trainer)

    ledger = EMPTY.add_validation(measured(0, {"reward": Metric(value=0.2)}))
    lineup = TrainedLineup(ledger, (4,), None)
    given: Any = {"start": start, "fetch": fetch, "show": place.show, "name": "benchmark b-1"}
    benchmarked = partial(serve_checkpoints, run, lineup, None, **given)
    async with leased(store, "m", "a training"):
        with pytest.raises(LeaseHeld, match=r"'m' is held by the run a training .* machine"):
            async with benchmarked():
                pass
    assert (place.started, taken_down) == (0, [])
    async with benchmarked() as served:
        assert served and served.measure == "reward"
        with pytest.raises(LeaseHeld, match="the run benchmark b-1"):
            check_free(store, "m")
        async with benchmarked():  # its retry, from another machine
            pass
    check_free(store, "m")
    assert len(taken_down) == 1
    assert run.machine_usd == pytest.approx(1.0, abs=0.01)
