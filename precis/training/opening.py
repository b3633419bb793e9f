"""The parts that a run needs to be up: its environment, its lease and the trainer."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

from precis.cluster.local import LocalHost
from precis.cluster.site import Meter, TrainerAddress, rented_here
from precis.cluster.skypilot import SkyPilotHost
from precis.config import BenchmarkConfig, RunConfig, TrainConfig
from precis.environments.command import load_command
from precis.environments.demonstrations import prepare_warm_start
from precis.environments.protocol import Environment
from precis.environments.python import files_of, load_python
from precis.environments.reasoning_gym.environment import load_reasoning_gym
from precis.environments.recorder import Recorder
from precis.environments.ruler import AgentEnvironment
from precis.environments.summaries.environment import Summaries
from precis.environments.summaries.services import connect_ruler, start_services
from precis.environments.textarena.environment import load_textarena
from precis.environments.verifiers import load_verifiers
from precis.environments.workers import Workers
from precis.errors import StoreError
from precis.processes.child import Launch, child_service
from precis.records.documents import Corpus, load_corpus, load_others
from precis.records.ledger import find_ledger, write_ledger
from precis.runs.lease import Lease, leased
from precis.settings.environment import AgentSettings
from precis.store import open_store
from precis.text import write_dollars
from precis.trainer.client import RemoteTrainer
from precis.training.connection import TrainerConnection
from precis.training.run import Run, work_folder

Read = Callable[[RunConfig], Awaitable[Corpus]]
Start = Callable[[RunConfig, LocalHost | SkyPilotHost], Awaitable[TrainerAddress]]

_log = logging.getLogger(__name__)


async def read_documents(config: RunConfig) -> Corpus:
    """Read the corpus, split into training and held-out documents, or a benchmark's own."""
    warn = partial(_log.warning, "%s")
    own = config.test_documents if isinstance(config, BenchmarkConfig) else None
    if own is not None:
        return await asyncio.to_thread(load_others, own, warn)
    return await asyncio.to_thread(load_corpus, config.documents, warn)


async def start_trainer(config: RunConfig, host: LocalHost | SkyPilotHost) -> TrainerAddress:
    """Start the trainer on this machine or on a rented one."""
    return await host.up()


def load_agent(settings: AgentSettings) -> AgentEnvironment:
    """Return the environment of an agent, its judge not connected, or raise ConfigError."""
    if settings.kind == "verifiers":
        return load_verifiers(settings)
    if settings.kind == "textarena":
        return load_textarena(settings)
    if settings.kind == "reasoning_gym":
        return load_reasoning_gym(settings)
    if settings.kind == "command":
        return load_command(settings.command, settings.scenarios)
    workers = settings.workers
    python = load_python(settings.file, settings.score, settings.rubric)
    if workers:
        path = Path(settings.file).expanduser().resolve()
        files = {str(one.relative_to(path.parent)): one for one in files_of(path)}
        load = partial(load_python, path.name, settings.score, settings.rubric)
        python.workers = Workers(workers, load, files)
    return python


@asynccontextmanager
async def open_environment(
    config: RunConfig, launch: Launch = child_service, read: Read = read_documents
) -> AsyncIterator[Environment]:
    """Open the environment of a run or a benchmark, with all that it needs, while the block lasts.
    Raises ConfigError where its file can't be used, DocumentsError where the documents can't."""
    environment: Summaries | AgentEnvironment
    log = work_folder(config) / "standins.log"
    async with AsyncExitStack() as stack:
        if config.environment.kind == "summaries":
            corpus = await read(config)
            services = await stack.enter_async_context(start_services(config, log, launch))
            environment = Summaries(corpus, config.rollouts, services)
        else:
            environment = await asyncio.to_thread(load_agent, config.environment)
            if environment.rubric:
                judge = connect_ruler(config, environment.rubric, log, launch)
                environment.ruler = await stack.enter_async_context(judge)
        if isinstance(config, TrainConfig):
            environment.warm_start = prepare_warm_start(config.warm_start, environment)
        yield await stack.enter_async_context(environment)


@asynccontextmanager
async def open_run(
    config: TrainConfig,
    environment: Environment,
    name: str,
    launch: Launch = child_service,
    start: Start = start_trainer,
) -> AsyncIterator[Run]:
    """Hold a model's lease and a running trainer while the block lasts, and yield the run.

    A local trainer's files stay in the run's work folder, for the next start. A rented machine is
    given back, or kept, as `config.cluster` says. A lease held under the same `name` is an earlier
    attempt's and is taken over; another run's raises LeaseHeld.
    """
    store = open_store(config.store)
    folder = work_folder(config) / "trainer"

    async def book_failed_start(machine_usd: float) -> None:
        """Put the cost of this start, judging included, into the run's ledger, if it has one."""
        usd = machine_usd + environment.spend.usd
        if not usd:
            return
        why = "The run has none yet."
        try:
            await lease.check()
            found = await asyncio.to_thread(find_ledger, store, config.model)
            if found is not None:
                charged = found[0].charge(usd, at=time.time())
                await asyncio.to_thread(write_ledger, store, charged, found[1].version)
                return
        except StoreError as error:
            why = str(error)
        cost = write_dollars(usd)
        _log.warning("The %s that this start has cost are in no ledger: %s", cost, why)

    async with (
        leased(store, config.model, name, take_over=config.take_over, one_run=True) as lease,
        connect_trainer(config, folder, launch, start, lease, book_failed_start) as trainer,
        Recorder.of(config) as recorder,
    ):
        run = Run(config, environment, recorder, store, lease, trainer)
        try:
            yield run
        finally:
            if run.described is None:  # else the loop has booked the step in progress
                await run.book_rest(run.unbooked)


@asynccontextmanager
async def connect_trainer(
    config: RunConfig,
    folder: Path,
    launch: Launch = child_service,
    start: Start = start_trainer,
    lease: Lease | None = None,
    book: Callable[[float], Awaitable[None]] | None = None,
) -> AsyncIterator[TrainerConnection]:
    """Provide a running trainer while the block lasts; `folder` is for one on this machine.

    A rented machine is left to the run that has taken over the lease, if there is one. `book` gets
    the dollars of a start that fails.
    """
    meter = Meter()
    cluster = config.cluster
    host: LocalHost | SkyPilotHost
    if cluster.where == "local":
        log = work_folder(config) / "trainer.log"
        host = LocalHost(folder, config.seed, log, config.trainer.backend, launch)
        rented = rented_here()
        if rented is not None:
            meter.start(*rented)
            usd_per_hour = rented[0].usd_per_hour
            _log.info("This machine costs $%.2f an hour by SkyPilot's catalogue.", usd_per_hour)
    else:
        host = SkyPilotHost(config, _log.info, lease, meter)
    bring_up = partial(start, config, host)
    keep = cluster.keep_on_failure
    try:
        try:
            address = await bring_up()
        except BaseException:
            if book is not None:
                await book(meter.unbooked_usd)
            raise
        client = RemoteTrainer(address.url, address.token, work_folder(config) / "art")
        try:
            yield TrainerConnection(client, bring_up, meter, config.recoveries_max)
        finally:
            await client.close()
        keep = not cluster.destroy_after_run
    finally:
        meter.stop()
        if isinstance(host, LocalHost):
            await host.down()
        elif keep:
            await host.leave()
        else:
            await host.give_back(_log.warning)
