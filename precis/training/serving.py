"""A model's checkpoints, served by a trainer during their benchmark."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import chain
from typing import Any, TypeVar

from precis.benchmark.contender import ContenderSpec, local_contender
from precis.benchmark.lineup import RANDOM, TrainedLineup, turns
from precis.benchmark.measure import Attempt, Measured, measure, results_of
from precis.benchmark.run import BenchmarkRun
from precis.cluster.local import scratch_folder
from precis.errors import ConfigError, TrainerLost
from precis.llm.concurrency import run_for_each
from precis.records.results import TRAINED
from precis.records.rollout import UNJUDGED, Unscored
from precis.rollouts.filter import refuse_too_many_unscored
from precis.runs.lease import leased
from precis.statistics.standings import Contender
from precis.trainer.client import Model, RemoteTrainer
from precis.trainer.protocol import StoredModel
from precis.training.connection import TrainerConnection
from precis.training.opening import Start, connect_trainer
from precis.training.run import trainable, work_folder

_log = logging.getLogger(__name__)

T = TypeVar("T")

Measurement = tuple[ContenderSpec, list[Attempt]]
Fetch = Callable[[BenchmarkRun, TrainedLineup, RemoteTrainer], Awaitable[list[ContenderSpec]]]


class CheckpointServer:
    """Serves checkpoints; starts a lost trainer again, `recoveries_max` times.

    `fetch` has the trainer serve them, and returns how each is called; `contenders` are the
    checkpoints, called at the trainer's present address. `show` shows the run's state during a
    recovery. `measure` is that of the run which trained them.
    """

    def __init__(
        self,
        fetch: Callable[[RemoteTrainer], Awaitable[list[ContenderSpec]]],
        trainer: TrainerConnection,
        show: Callable[[str, str], Awaitable[None]],
        measure: str = "",
    ) -> None:
        self.measure = measure
        self.contenders: list[ContenderSpec] = []
        self._fetch_from = fetch
        self._trainer = trainer
        self._show = show
        trainer.losses = 0

    async def fetch(self) -> None:
        """Have the trainer serve the checkpoints; a TrainerLost says that it was lost more than
        `recoveries_max` times in this benchmark."""
        try:
            await self._fetch()
        except TrainerLost as error:
            await self._trainer.recover(error, self._show, self._fetch)

    async def with_checkpoint(
        self, contender: Contender, work: Callable[[ContenderSpec], Awaitable[T]]
    ) -> T:
        """Do work that needs a checkpoint, and repeat it where the trainer is lost. A TrainerLost
        says that it was lost more than `recoveries_max` times in this benchmark."""
        while True:
            spec = next(one for one in self.contenders if one.contender == contender)
            try:
                return await work(spec)
            except TrainerLost as error:
                await self._trainer.recover(error, self._show, self._fetch)

    async def _fetch(self) -> str:
        self.contenders = await self._fetch_from(self._trainer.client)
        return "The trainer is back."


@asynccontextmanager
async def serve_checkpoints(
    run: BenchmarkRun,
    trained: TrainedLineup | None,
    trainer: TrainerConnection | None,
    *,
    start: Start,
    fetch: Fetch,
    show: Callable[[str, str], Awaitable[None]],
    name: str,
) -> AsyncIterator[CheckpointServer | None]:
    """Serve the benchmark's checkpoints while the block lasts; yields None where it has none.

    Without a `trainer` one is started here. `show` is that of `CheckpointServer`. A LeaseHeld says
    that a live run of another `name` uses the machine that would be rented.
    """
    if trained is None:
        yield None
        return
    async with AsyncExitStack() as stack:
        is_own = trainer is None
        if trainer is None:
            lease = None
            if run.config.cluster.where == "sky":
                # The model's runs have the same machine, which a benchmark takes down at its end,
                # and a sweep takes down what no live run holds.
                remedy = "Its machine is the run's: benchmark the model when that has ended."
                held = leased(run.store, run.name, name, one_run=True, remedy=remedy)
                lease = await stack.enter_async_context(held)
            # Of this process alone: it only serves the checkpoints that it fetches.
            folder = stack.enter_context(scratch_folder(work_folder(run.config) / "trainers"))
            own = connect_trainer(run.config, folder, start=start, lease=lease)
            trainer = await stack.enter_async_context(own)
        server = CheckpointServer(partial(fetch, run, trained), trainer, show, trained.measure)
        await server.fetch()
        yield server
        if is_own:
            run.machine_usd = trainer.meter.unbooked_usd


async def fetch_checkpoints(
    run: BenchmarkRun, trained: TrainedLineup, trainer: RemoteTrainer
) -> list[ContenderSpec]:
    """Have the trainer fetch the checkpoints from the store; return how each is called then."""
    model = trainable(run.config)
    stored = StoredModel(store=run.store.url, name=run.name)
    for step in trained.steps:
        digest = trained.ledger.checkpoints.get(step, "")
        await trainer.fetch(model, step, stored, digest)
    await model.register(trainer)
    return checkpoints_of(run, trained, model)


def checkpoints_of(
    run: BenchmarkRun, trained: TrainedLineup, model: Model | None = None
) -> list[ContenderSpec]:
    """Return the checkpoints as they are called at the trainer of a registered model; without one,
    for a forecast alone, at no server's address."""
    model = model or trainable(run.config)
    contenders = []
    for step in trained.steps:
        contenders.append(
            local_contender(
                Contender(TRAINED, step),
                model.get_inference_name(step),
                url=model.inference_base_url or "http://trainer.invalid/v1",
                key=str(model.inference_api_key),
                in_flight=run.config.rollouts.in_flight,
                identity=trained.ledger.checkpoints.get(step),
            )
        )
    return contenders


async def measure_contender(run: BenchmarkRun, contender: ContenderSpec) -> Measurement:
    """Have a contender attempt each held-out scenario; a TrainerLost says that its trainer is
    gone."""
    held_out = run.environment.scenarios("validation")
    tell = partial(run.tell, contender)
    async with run.client_of(contender) as client:
        first = await run.read_first()
        attempts = await measure(
            run.recorder, client, run.environment, held_out, tell, first, run.sampled
        )
    _log.info("Measured %s.", contender.contender)
    scores = [one.rollout.score for one in attempts]
    failed = [one.detail for one in scores if isinstance(one, Unscored) and one.cause != UNJUDGED]
    if failed and contender.contender.model != RANDOM:  # which may take no part
        told = f"{contender.contender}: {len(failed)} of {len(scores)} rollouts have no score"
        _log.warning("%s. The first: %s", told, failed[0])
    return contender, attempts


async def measure_all(
    run: BenchmarkRun,
    checkpoints: CheckpointServer | None,
    others: Sequence[ContenderSpec],
    measure_one: Callable[[BenchmarkRun, ContenderSpec], Awaitable[Measurement]],
    measure_ceiling: Callable[[BenchmarkRun], Awaitable[float | None]],
) -> Measured:
    """Measure the ceiling and every contender: hosted ones at the same time, our own in turn.

    `measure_one` is `measure_contender`, perhaps with retries. With checkpoints, the measure is
    that of their run. A ConfigError says that there is no contender, a JudgeUnavailable or a
    RolloutError that no rollout of any has a score.
    """

    async def measure_any(contender: ContenderSpec) -> Measurement:
        if checkpoints is None or contender.contender.model != TRAINED:
            return await measure_one(run, contender)
        return await checkpoints.with_checkpoint(contender.contender, partial(measure_one, run))

    async def measure_turn(contenders: Sequence[ContenderSpec]) -> list[Measurement]:
        return [await measure_any(contender) for contender in contenders]

    trained = checkpoints.contenders if checkpoints else []
    in_turn = [partial(measure_turn, group) for group in turns([*trained, *others])]
    work: list[Callable[[], Awaitable[Any]]] = [partial(measure_ceiling, run), *in_turn]
    ceiling, *measured = await run_for_each(lambda start: start(), work)
    everyone = []
    for contender, attempts in chain.from_iterable(measured):
        is_chosen = run.config.baselines is not None or contender.contender.model != RANDOM
        if is_chosen or any(one.rollout.calls for one in attempts):
            everyone.append((contender, attempts))
        else:
            _log.info(
                "The random player takes no part: there is no request whose answers it can list."
            )
    if not everyone:
        raise ConfigError(
            f"The benchmark of {run.name} has no contender.",
            "Give it `checkpoints`, `hosted`, `contenders` or `baselines`.",
        )
    rollouts = [one.rollout for _, attempts in everyone for one in attempts]
    if all(one.reward is None for one in rollouts):
        refuse_too_many_unscored(rollouts, run.config.rollouts, needs_one=True)
    measured_by = checkpoints.measure if checkpoints else ""
    return results_of(everyone, run.environment, run.id, run.began, ceiling, measured_by)
