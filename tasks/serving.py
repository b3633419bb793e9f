"""A model's checkpoints, served by a trainer while they are benchmarked."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TypeVar

from prefect import task
from prefect.logging import get_run_logger

from precis.benchmark.contender import ContenderSpec, local_contender
from precis.benchmark.lineup import TrainedLineup, checkpoint_digest
from precis.benchmark.run import BenchmarkRun
from precis.errors import TrainerLost
from precis.processes.child import Launch, child_service
from precis.records.results import TRAINED
from precis.statistics.standings import Contender
from precis.trainer.client import RemoteTrainer
from precis.trainer.protocol import StoredModel
from precis.training.connection import TrainerConnection
from precis.training.run import trainable
from tasks.policy import RETRIED
from tasks.services import connect_serving_trainer
from tasks.states import show_running_as

T = TypeVar("T")


class CheckpointServer:
    """Serves checkpoints, and is brought up again where its trainer is lost.

    Attributes:
        contenders: the checkpoints, asked where the trainer is now.
    """

    def __init__(
        self, run: BenchmarkRun, trained: TrainedLineup, trainer: TrainerConnection
    ) -> None:
        self.contenders: list[ContenderSpec] = []
        self._run = run
        self._trained = trained
        self._trainer = trainer
        self._losses = 0

    async def fetch(self) -> None:
        """Have the trainer serve the checkpoints.

        Raises:
            TrainerLost: it was lost more than `recoveries_max` times in this benchmark.
        """
        await self._retrying(self._fetch)

    async def with_checkpoint(
        self, contender: Contender, work: Callable[[ContenderSpec, RemoteTrainer], Awaitable[T]]
    ) -> T:
        """Do what needs a checkpoint; where the trainer is lost, do all of it again.

        Raises:
            TrainerLost: it was lost more than `recoveries_max` times in this benchmark.
        """

        async def work_where_it_is_now() -> T:
            spec = next(one for one in self.contenders if one.contender == contender)
            return await work(spec, self._trainer.client)

        return await self._retrying(work_where_it_is_now)

    async def _retrying(self, work: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await work()
            except TrainerLost as error:
                self._losses += 1
                if self._losses > self._run.config.recoveries_max:
                    raise
                get_run_logger().warning("%s It is brought up again.", error)
                await show_running_as("Preempted", str(error))
            await show_running_as("Recovering", "The trainer is brought up again.")
            await self._retrying(self._bring_up)
            await show_running_as("Running", "The trainer is back.")

    async def _bring_up(self) -> None:
        await self._trainer.bring_up()
        await self._fetch()

    async def _fetch(self) -> None:
        self.contenders = await fetch_checkpoints(self._run, self._trained, self._trainer.client)


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
            own = connect_serving_trainer(run.config, launch)
            trainer = await stack.enter_async_context(own)
        server = CheckpointServer(run, trained, trainer)
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
        tokens_max=run.task.tokens_max,
        in_flight=run.config.rollouts.in_flight,
    )
    return [
        spec(
            Contender(TRAINED, step),
            model.get_inference_name(step),
            identity=await asyncio.to_thread(checkpoint_digest, run.store, run.name, step),
        )
        for step in trained.steps
    ]
