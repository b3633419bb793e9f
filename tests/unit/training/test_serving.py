"""Checkpoints that are served go on being served when their trainer is lost."""

from pathlib import Path

import pytest

from precis.benchmark.contender import ContenderSpec, local_contender
from precis.cluster.site import TrainerAddress
from precis.errors import TrainerLost
from precis.statistics.standings import Contender
from precis.trainer.client import RemoteTrainer
from precis.training.connection import TrainerConnection
from precis.training.meter import Meter
from precis.training.serving import CheckpointServer

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
