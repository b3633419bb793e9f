"""The benchmark's steps: who takes part, what it will cost, and what each achieves."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import chain
from typing import Any

from prefect import task
from prefect.logging import get_run_logger

from precis.benchmark.contender import ContenderSpec
from precis.benchmark.extractive import serve_rehearsed
from precis.benchmark.lineup import (
    TrainedLineup,
    line_up_trained,
    serve_baselines,
    turns,
)
from precis.benchmark.measure import (
    Attempt,
    Measured,
    measure,
    results_of,
    with_settings_of_its_run,
)
from precis.benchmark.random_player import found_no_options
from precis.benchmark.run import BenchmarkRun, hosted_of
from precis.config import BenchmarkConfig
from precis.environments.protocol import Environment
from precis.environments.recorder import Recorder
from precis.llm.concurrency import run_together
from precis.observe.completions import completions_of_contender
from precis.observe.observers import observing
from precis.records.results import TRAINED
from precis.store import open_store
from precis.training.serving import CheckpointServer
from tasks.policy import RETRIED
from tasks.training import judge_slots

Measurement = tuple[ContenderSpec, list[Attempt]]


@asynccontextmanager
async def open_benchmark(
    config: BenchmarkConfig, environment: Environment
) -> AsyncIterator[BenchmarkRun]:
    """A benchmark, whose connections are closed when the block ends."""
    async with observing() as observers, Recorder() as recorder:

        def tell(run: BenchmarkRun, contender: ContenderSpec, attempt: Attempt) -> None:
            if not attempt.kept:
                seen = completions_of_contender(attempt.rollout, contender, run.id.id)
                observers.completions(seen)

        run = BenchmarkRun(config, environment, recorder, tell)
        try:
            yield run
        finally:
            run.kept.close()


@task(name="look up run", task_run_name="look up the run of {config.model}", **RETRIED)
async def look_up_run(config: BenchmarkConfig) -> BenchmarkConfig:
    """The benchmark's settings, those that were not given taken from the model's run."""
    return await asyncio.to_thread(with_settings_of_its_run, config, open_store(config.store))


@task(name="line up", task_run_name="line up {run.name} and the others", **RETRIED)
async def line_up(run: BenchmarkRun) -> TrainedLineup | None:
    """Which checkpoints take part; None where none is to.

    Raises:
        ConfigError: a hosted model's key is not set, or the model was trained on other scenarios
            than the benchmark's.
        StoreError: the store holds no such model.
    """
    # Only to see that all keys are set, before a trainer is started for nothing.
    hosted_of(run.config)
    await run.kept.open()
    logger = get_run_logger()
    trained = await asyncio.to_thread(
        line_up_trained, run.store, run.config, run.environment, logger.warning
    )
    if run.config.test_documents and trained and trained.seen == 0:
        count = len(run.environment.scenarios("validation"))
        scenarios = run.environment.nouns.scenarios
        logger.info("%s was trained on none of these %d %s.", run.name, count, scenarios)
    return trained


@asynccontextmanager
async def serve_others(run: BenchmarkRun) -> AsyncIterator[list[ContenderSpec]]:
    """The hosted models, a rehearsed one, and the baselines, while the block lasts.

    Raises:
        ConfigError: a hosted model's key is not set, the rehearsed model is none, or the
            environment has no such baseline.
        StoreError: the store does not hold the rehearsed model.
    """
    hosted = hosted_of(run.config)
    corpus = None if run.config.test_documents else run.environment.digest
    async with (
        serve_rehearsed(run.store, run.config, corpus) as extractive,
        serve_baselines(run.config, run.environment) as baselines,
    ):
        yield [*hosted, *extractive, *baselines]


@task(name="forecast", task_run_name="forecast of {run.name}'s benchmark", **RETRIED)
async def announce_cost(run: BenchmarkRun, contenders: Sequence[ContenderSpec]) -> None:
    """Say what the benchmark will cost, before it costs anything."""
    ahead = await run.estimate_cost(contenders)
    if ahead is None:
        return
    logger = get_run_logger()
    if ahead.rollouts or ahead.scoring:
        logger.info("%s", ahead)
    limit = run.config.dollars_max
    if limit is not None and ahead.known_usd > limit:
        logger.warning(
            "dollars_max, $%.2f, may not last: what is left over goes unscored, and a later "
            "benchmark makes up for it.",
            limit,
        )


async def measure_all(
    run: BenchmarkRun, checkpoints: CheckpointServer | None, others: Sequence[ContenderSpec]
) -> Measured:
    """The ceiling and every contender: hosted ones at the same time, our own in turn."""

    async def measure_turn(contenders: Sequence[ContenderSpec]) -> list[Measurement]:
        return [await measure_any(contender) for contender in contenders]

    async def measure_any(contender: ContenderSpec) -> Measurement:
        if checkpoints is None or contender.contender.model != TRAINED:
            return await measure_contender(run, contender)
        measure_checkpoint = partial(measure_contender, run)
        return await checkpoints.with_checkpoint(contender.contender, measure_checkpoint)

    trained = checkpoints.contenders if checkpoints else []
    in_turn = [partial(measure_turn, group) for group in turns([*trained, *others])]
    work: list[Callable[[], Awaitable[Any]]] = [partial(measure_ceiling, run), *in_turn]
    async with judge_slots(run.config):
        ceiling, *measured = await run_together(work)
    everyone = []
    for contender, attempts in chain.from_iterable(measured):
        if run.config.baselines is None and found_no_options(contender, attempts):
            get_run_logger().info(
                "The random player takes no part: there is no request whose answers it can list."
            )
        else:
            everyone.append((contender, attempts))
    return results_of(everyone, run.environment, run.id, ceiling)


@task(name="measure", task_run_name="measure {contender.contender}", **RETRIED)
async def measure_contender(run: BenchmarkRun, contender: ContenderSpec) -> Measurement:
    """What a contender makes of each held-out scenario.

    Raises:
        TrainerLost: the trainer that serves it is gone.
    """
    held_out = run.environment.scenarios("validation")
    tell = partial(run.tell, contender)
    async with run.client_of(contender) as client:
        first = await run.read_first()
        attempts = await measure(
            run.recorder, client, run.environment, held_out, tell, first, run.sampled
        )
    return contender, attempts


@task(name="ceiling", task_run_name="ceiling of {run.name}'s benchmark", **RETRIED)
async def measure_ceiling(run: BenchmarkRun) -> float | None:
    """The best that any policy could reach, where the environment knows."""
    return await run.environment.ceiling(run.store)
