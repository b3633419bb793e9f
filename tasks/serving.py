"""A model's checkpoints, served by a trainer while they are benchmarked."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from prefect import task
from prefect.logging import get_run_logger

from precis.benchmark.contender import ContenderSpec, local_contender
from precis.benchmark.lineup import TrainedLineup, checkpoint_digest
from precis.benchmark.run import BenchmarkRun
from precis.processes.child import Launch, child_service
from precis.records.results import TRAINED
from precis.statistics.standings import Contender
from precis.trainer.client import RemoteTrainer
from precis.trainer.protocol import StoredModel
from precis.training.connection import TrainerConnection
from precis.training.opening import connect_serving_trainer
from precis.training.run import trainable
from precis.training.serving import CheckpointServer
from tasks.policy import RETRIED
from tasks.services import start_trainer
from tasks.states import show_running_as


@asynccontextmanager
async def serve_checkpoints(
    run: BenchmarkRun,
    trained: TrainedLineup | None,
    trainer: TrainerConnection | None,
    launch: Launch = child_service,
) -> AsyncIterator[CheckpointServer | None]:
    """The checkpoints that take part, served while the block lasts; None where none does.

    Args:
        trainer: serves them; without one, one is started here.
    """
    if trained is None:
        yield None
        return
    async with AsyncExitStack() as stack:
        if trainer is None:
            own = connect_serving_trainer(run.config, launch, start_trainer)
            trainer = await stack.enter_async_context(own)
        server = CheckpointServer(
            partial(fetch_checkpoints, run, trained),
            trainer,
            run.config.recoveries_max,
            get_run_logger().warning,
            show_running_as,
        )
        await server.fetch()
        yield server


@task(name="fetch checkpoints", task_run_name="fetch checkpoints of {run.name}", **RETRIED)
async def fetch_checkpoints(
    run: BenchmarkRun, trained: TrainedLineup, trainer: RemoteTrainer
) -> list[ContenderSpec]:
    """Have the trainer fetch the checkpoints from the store; how each is asked then."""
    model = trainable(run.config)
    stored = StoredModel(store=run.store.url, name=run.name)
    for step in trained.steps:
        digest = trained.ledger.checkpoints.get(step, "")
        await trainer.fetch(model, step, stored, digest)
    await model.register(trainer)
    spec = partial(
        local_contender,
        url=str(model.inference_base_url),
        key=str(model.inference_api_key),
        in_flight=run.config.rollouts.in_flight,
    )
    contenders = []
    for step in trained.steps:
        contenders.append(
            spec(
                Contender(TRAINED, step),
                model.get_inference_name(step),
                identity=await asyncio.to_thread(checkpoint_digest, run.store, run.name, step),
            )
        )
    return contenders
