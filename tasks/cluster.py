"""What a run needs to be up: trainer, judge and stand-ins."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from prefect import task
from prefect.logging import get_run_logger

from precis.cluster.local import LocalHost, scratch_folder
from precis.cluster.site import TrainerAddress, TrainerHost
from precis.cluster.skypilot import SkyPilotHost
from precis.cluster.task import Work
from precis.config import RunConfig
from precis.environment import Environment, private_home
from precis.judge import JudgeClient, endpoint_for
from precis.judge.cache import CACHE_FILE, ReplyCache
from precis.judge.ruler import RulerJudge
from precis.processes.child import ChildService, child_service
from precis.settings.cluster import ClusterConfig
from precis.store import open_store
from precis.trainer.client import RemoteTrainer
from precis.training.run import Run, Services, work_folder
from tasks.policy import RETRIED

T = TypeVar("T")

_services: ContextVar[Services | None] = ContextVar("services", default=None)


@dataclass(frozen=True)
class ServingTrainer:
    """A trainer that serves checkpoints, and how it is brought up again where it was lost."""

    trainer: RemoteTrainer
    bring_up: Callable[[], Awaitable[None]]


_served: ContextVar[ServingTrainer | None] = ContextVar("served", default=None)


@asynccontextmanager
async def services(config: RunConfig) -> AsyncIterator[Services]:
    """Judge and stand-ins: those of the flow around this one, or else started here.

    What is started here is stopped when the block ends, however it ends.
    """
    running = _services.get()
    if running is not None:
        yield running
        return
    async with AsyncExitStack() as stack:
        standins = await start_standins(config, stack)
        judge, ruler = await connect_judge(config, standins, stack)
        started = Services(judge, ruler, standins)
        with _set(_services, started):
            yield started


@asynccontextmanager
async def training_at(run: Run) -> AsyncIterator[None]:
    """The trainer of a run, up while the block lasts; call it with the run's lease held.

    What a local trainer knows stays in the run's work folder, for the next start. A rented
    machine is given back, or kept, as `config.cluster` says.
    """
    run.site = site_for(run.config, work_folder(run.config) / "trainer")
    async with given_back(run.site, run.config.cluster), AsyncExitStack() as stack:
        stack.callback(run.machine.stop)
        run.trainer = _client(run.config, await _address(run))
        stack.push_async_callback(run.trainer.close)
        with _set(_served, ServingTrainer(run.trainer, partial(bring_up, run))):
            yield


@asynccontextmanager
async def serving(config: RunConfig) -> AsyncIterator[ServingTrainer]:
    """A trainer to serve checkpoints: that of the flow around this one, or one started here."""
    running = _served.get()
    if running is not None:
        yield running
        return
    work = work_folder(config)
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(scratch_folder(work / "trainers"))
        site = site_for(config, folder)
        await stack.enter_async_context(given_back(site, config.cluster))
        trainer = _client(config, await start_trainer(config, site))
        stack.push_async_callback(trainer.close)

        async def bring_up_again() -> None:
            await trainer.move_to(await start_trainer(config, site))

        yield ServingTrainer(trainer, bring_up_again)


async def bring_up(run: Run) -> None:
    """Bring the trainer of a run up again, and go on with it wherever it is now."""
    run.machine.stop()
    await run.trainer.move_to(await _address(run))


def site_for(config: RunConfig, folder: Path) -> TrainerHost:
    """Where the trainer of these settings runs.

    Args:
        folder: of a trainer on this machine.
    """
    backend = config.trainer.backend
    if config.cluster.where == "local":
        return LocalHost(folder, config.seed, work_folder(config) / "trainer.log", backend)
    work = Work(config.model, open_store(config.store).url, backend, config.seed)
    return SkyPilotHost(work, config.cluster, private_home(), get_run_logger().info)


@asynccontextmanager
async def given_back(site: TrainerHost, cluster: ClusterConfig) -> AsyncIterator[None]:
    """Take the site down when the block ends, however it ends, unless it is to be kept."""
    keep = cluster.keep_on_failure
    try:
        yield
        keep = not cluster.destroy_after_run
    finally:
        await (site.leave() if keep and isinstance(site, SkyPilotHost) else site.down())


@task(name="start stand-ins", **RETRIED)
async def start_standins(config: RunConfig, stack: AsyncExitStack) -> ChildService:
    """Start the lexical judge and the baselines beside the flow."""
    log = work_folder(config) / "standins.log"
    return await stack.enter_async_context(
        child_service("precis.standins.serve", ["--with-parent"], log)
    )


@task(name="connect judge", task_run_name="connect judge: {config.judge.provider}", **RETRIED)
async def connect_judge(
    config: RunConfig, standins: ChildService, stack: AsyncExitStack
) -> tuple[JudgeClient, RulerJudge | None]:
    """Open the judge's client, its cache of replies, and, where asked for, its ranking."""
    environment = Environment()
    endpoint = endpoint_for(config.judge, environment.keys(), f"{standins.url}/v1")
    if config.judge.provider == "lexical":
        endpoint = replace(endpoint, api_key=standins.token)
    cache = stack.enter_context(ReplyCache(private_home() / CACHE_FILE))
    judge = await stack.enter_async_context(JudgeClient(endpoint, config.judge, cache=cache))
    if config.rollouts.reward == "questions":
        return judge, None
    return judge, await stack.enter_async_context(
        RulerJudge(endpoint, config.judge, limiter=judge.limiter)
    )


@task(name="start trainer", task_run_name="start trainer of {config.model}", **RETRIED)
async def start_trainer(config: RunConfig, site: TrainerHost) -> TrainerAddress:
    """Bring the trainer up where it is to run."""
    return await site.up()


async def _address(run: Run) -> TrainerAddress:
    """Where the run's trainer answers, once it is up; a rented machine's meter runs from here."""
    address = await start_trainer(run.config, run.site)
    if isinstance(run.site, SkyPilotHost) and (machine := run.site.cluster) is not None:
        run.machine.start(machine.usd_per_hour)
        get_run_logger().info(
            "The trainer runs on %s (%s), at $%.2f an hour by SkyPilot's catalogue.",
            *(machine.name, machine.infra, machine.usd_per_hour),
        )
    return address


def _client(config: RunConfig, address: TrainerAddress) -> RemoteTrainer:
    return RemoteTrainer(address.url, address.token, work_folder(config) / "art")


@contextmanager
def _set(variable: ContextVar[T | None], value: T) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)
