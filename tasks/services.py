"""What a run needs to be up: the judge, the stand-ins, and the trainer."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from prefect import task
from prefect.logging import get_run_logger
from prefect.runtime import flow_run

from precis.cluster.local import LocalHost, scratch_folder
from precis.cluster.site import TrainerAddress, TrainerHost
from precis.cluster.skypilot import SkyPilotHost
from precis.cluster.task import Work
from precis.config import JudgeConfig, RunConfig, TrainConfig
from precis.environment import Environment, private_home
from precis.judge import JudgeClient, endpoint_for
from precis.judge.cache import CACHE_FILE, ReplyCache
from precis.judge.endpoint import OWN_KEY, SECOND_KEY
from precis.judge.ruler import RulerJudge
from precis.llm.providers import Endpoint
from precis.processes.child import ChildService, Launch, child_service
from precis.records.documents import Corpus
from precis.run.lease import leased
from precis.settings.cluster import ClusterConfig
from precis.store import open_store
from precis.trainer.client import RemoteTrainer
from precis.training.connection import TrainerConnection
from precis.training.meter import Meter
from precis.training.run import Run, Services, work_folder
from tasks.policy import RETRIED


@asynccontextmanager
async def start_services(
    config: RunConfig, launch: Launch = child_service
) -> AsyncIterator[Services]:
    """Judges and stand-ins, up while the block lasts."""
    log = work_folder(config) / "standins.log"
    async with (
        launch("precis.standins.serve", ["--with-parent"], log) as standins,
        connect_judge(config, standins) as (judge, ruler),
        connect_second_judge(config, standins) as second,
    ):
        yield Services(judge, ruler, standins, second)


@asynccontextmanager
async def connect_judge(
    config: RunConfig, standins: ChildService
) -> AsyncIterator[tuple[JudgeClient, RulerJudge | None]]:
    """The judge's client with its cache of replies, and, where asked for, its ranking."""
    endpoint = _endpoint_of(config.judge, standins, OWN_KEY)
    with ReplyCache(private_home() / CACHE_FILE) as cache:
        async with JudgeClient(endpoint, config.judge, cache=cache) as judge:
            if config.rollouts.reward == "questions":
                yield judge, None
                return
            async with RulerJudge(endpoint, config.judge, limiter=judge.limiter) as ruler:
                yield judge, ruler


@asynccontextmanager
async def connect_second_judge(
    config: RunConfig, standins: ChildService
) -> AsyncIterator[JudgeClient | None]:
    """The client of a training's second judge; None where it has none."""
    second = config.second_judge if isinstance(config, TrainConfig) else None
    if second is None:
        yield None
        return
    endpoint = _endpoint_of(second, standins, SECOND_KEY)
    with ReplyCache(private_home() / CACHE_FILE) as cache:
        async with JudgeClient(endpoint, second, cache=cache) as judge:
            yield judge


def _endpoint_of(config: JudgeConfig, standins: ChildService, own_key: str) -> Endpoint:
    endpoint = endpoint_for(config, Environment().keys(), f"{standins.url}/v1", own_key)
    local = config.provider == "lexical"
    return replace(endpoint, api_key=standins.token) if local else endpoint


@asynccontextmanager
async def open_run(
    config: TrainConfig, corpus: Corpus, services: Services, launch: Launch = child_service
) -> AsyncIterator[Run]:
    """A run that holds its model's lease, and whose trainer is up, while the block lasts.

    What a local trainer knows stays in the run's work folder, for the next start. A rented
    machine is given back, or kept, as `config.cluster` says.

    Raises:
        LeaseHeld: another run holds the model.
    """
    store = open_store(config.store)
    name = f"{config.model} ({flow_run.id})"
    folder = work_folder(config) / "trainer"
    async with (
        leased(store, config.model, name, take_over=config.take_over, one_run=True) as lease,
        connect_trainer(config, folder, launch) as trainer,
    ):
        yield Run(config, corpus, services, store, lease, trainer)


@asynccontextmanager
async def connect_serving_trainer(
    config: RunConfig, launch: Launch = child_service
) -> AsyncIterator[TrainerConnection]:
    """A trainer of this process alone, which only serves the checkpoints that it fetches."""
    with scratch_folder(work_folder(config) / "trainers") as folder:
        async with connect_trainer(config, folder, launch) as trainer:
            yield trainer


@asynccontextmanager
async def connect_trainer(
    config: RunConfig, folder: Path, launch: Launch = child_service
) -> AsyncIterator[TrainerConnection]:
    """A trainer, up while the block lasts.

    Args:
        folder: of a trainer on this machine.
    """
    meter = Meter()
    host = host_for(config, folder, launch)
    start = partial(_start_metered, config, host, meter)
    async with give_back(host, config.cluster):
        try:
            address = await start()
            client = RemoteTrainer(address.url, address.token, work_folder(config) / "art")
            try:
                yield TrainerConnection(client, start, meter)
            finally:
                await client.close()
        finally:
            meter.stop()


def host_for(config: RunConfig, folder: Path, launch: Launch = child_service) -> TrainerHost:
    """Where the trainer of these settings runs.

    Args:
        folder: of a trainer on this machine.
    """
    backend = config.trainer.backend
    if config.cluster.where == "local":
        log = work_folder(config) / "trainer.log"
        return LocalHost(folder, config.seed, log, backend, launch)
    work = Work(config.model, open_store(config.store).url, backend, config.seed)
    return SkyPilotHost(work, config.cluster, private_home(), get_run_logger().info)


@asynccontextmanager
async def give_back(host: TrainerHost, cluster: ClusterConfig) -> AsyncIterator[None]:
    """Take the host down when the block ends, however it ends, unless it is to be kept."""
    keep = cluster.keep_on_failure
    try:
        yield
        keep = not cluster.destroy_after_run
    finally:
        if keep and isinstance(host, SkyPilotHost):
            await host.leave()
        else:
            await host.down()


@task(name="start trainer", task_run_name="start trainer of {config.model}", **RETRIED)
async def start_trainer(config: RunConfig, host: TrainerHost) -> TrainerAddress:
    """Bring the trainer up where it is to run."""
    return await host.up()


async def _start_metered(config: RunConfig, host: TrainerHost, meter: Meter) -> TrainerAddress:
    """Where the trainer answers, once it is up; a rented machine's meter runs from here."""
    address = await start_trainer(config, host)
    price = host.price
    if price is not None:
        meter.start(price)
        get_run_logger().info(
            "The trainer runs on %s, at $%.2f an hour by SkyPilot's catalogue.",
            host.place,
            price.usd_per_hour,
        )
    return address
