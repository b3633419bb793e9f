"""Checkpoints that are served go on being served when their trainer is lost."""

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from precis.benchmark.contender import ContenderSpec, local_contender
from precis.benchmark.lineup import TrainedLineup
from precis.cluster.site import TrainerAddress
from precis.config import BenchmarkConfig
from precis.errors import LeaseHeld, TrainerLost
from precis.records.ledger import Metric
from precis.run.lease import check_free, leased
from precis.statistics.standings import Contender
from precis.store import FolderStore
from precis.trainer.client import RemoteTrainer
from precis.training.connection import TrainerConnection
from precis.training.meter import Meter
from precis.training.serving import CheckpointServer, serve_checkpoints
from tests.support.ledgers import EMPTY, measured

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
    trainer = TrainerConnection(client, place.start, Meter())
    return CheckpointServer(place.fetch, trainer, recoveries_max, place.show)


async def test_work_is_done_where_the_trainer_is(tmp_path: Path) -> None:
    place = Place()
    server = await server_at(place, tmp_path)
    await server.fetch()

    async def work(spec: ContenderSpec) -> str:
        return spec.endpoint.base_url

    assert await server.with_checkpoint(NEWEST, work) == "http://127.0.0.1:1"
    assert place.shown == []


async def test_a_trainer_that_is_lost_while_it_comes_up_is_given_up_after_so_many_losses(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    place = Place(lost=2)
    server = await server_at(place, tmp_path)
    await server.fetch()
    assert place.started == 3
    assert [spec.endpoint.base_url for spec in server.contenders] == ["http://127.0.0.1:3"]
    caplog.clear()
    place = Place(lost=9)
    server = await server_at(place, tmp_path, recoveries_max=2)
    with pytest.raises(TrainerLost, match="Nobody answers"):
        await server.fetch()
    assert place.started == 3
    assert len(caplog.messages) == 2


async def test_a_rented_machine_is_held_while_a_benchmark_of_its_own_is_at_work_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a sweep would take it down, or the benchmark that of a run that trains."""
    taken_down: list[str] = []

    async def take_down(name: str) -> None:
        taken_down.append(name)

    monkeypatch.setattr("precis.cluster.api.down", take_down)
    place = Place()
    store = FolderStore(tmp_path / "store")
    cluster = {"where": "sky", "infra": ["slurm/lab/gpu"]}
    given = {"model": "m", "store": "s3://precis/runs", "cluster": cluster}
    run: Any = SimpleNamespace(
        config=BenchmarkConfig.model_validate(given),
        store=store,
        name="m",
        id=SimpleNamespace(id="b-1"),
    )

    async def start(*_: object) -> TrainerAddress:
        return await place.start()

    async def fetch(_run: object, _lineup: object, trainer: RemoteTrainer) -> list[ContenderSpec]:
        return await place.fetch(trainer)

    ledger = EMPTY.add_validation(measured(0, {"reward": Metric(value=0.2)}))
    lineup = TrainedLineup(ledger, (4,), None)
    serving = partial(
        serve_checkpoints,
        run,
        lineup,
        None,
        start=start,
        fetch=fetch,
        show=place.show,
    )
    async with leased(store, "m", "a training"):
        with pytest.raises(LeaseHeld, match=r"'m' is held by the run a training .* machine"):
            async with serving():
                pass
    assert (place.started, taken_down) == (0, [])
    async with serving() as served:
        assert served and served.measure == "reward"
        with pytest.raises(LeaseHeld, match="the run benchmark b-1"):
            check_free(store, "m")
    check_free(store, "m")
    assert len(taken_down) == 1
