"""The benchmark's steps: who takes part, what it will cost, and what each achieves."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import chain
from typing import Any

import polars as pl
from prefect import task
from prefect.logging import get_run_logger

from precis.benchmark.client import UNREACHABLE
from precis.benchmark.contender import ContenderSpec
from precis.benchmark.extractive import serve_rehearsed
from precis.benchmark.forecast import estimate_cost
from precis.benchmark.lineup import (
    TrainedLineup,
    line_up_trained,
    list_baselines,
    list_hosted,
    turns,
)
from precis.benchmark.measure import (
    ContenderResults,
    measure,
    measure_ceiling,
    results_of,
    with_settings_of_its_run,
)
from precis.benchmark.run import BenchmarkRun, Measured
from precis.config import BenchmarkConfig
from precis.environment import Environment
from precis.environments.summaries.judge import JudgeClient
from precis.llm.concurrency import run_together
from precis.observe.completions import completion_of_contender
from precis.observe.observers import observing
from precis.processes.child import ChildService
from precis.records.documents import Corpus, load_corpus, load_others
from precis.records.results import TRAINED
from precis.records.summary import JudgedSummary
from precis.store import open_store
from precis.trainer.client import RemoteTrainer
from precis.training.run import trainable
from precis.training.serving import CheckpointServer
from tasks.policy import RETRIED
from tasks.training import judge_slots


@asynccontextmanager
async def open_benchmark(
    config: BenchmarkConfig, corpus: Corpus, judge: JudgeClient
) -> AsyncIterator[BenchmarkRun]:
    """A benchmark, whose connections are closed when the block ends."""
    async with observing() as observers:

        def tell(run: BenchmarkRun, contender: ContenderSpec, outcome: JudgedSummary) -> None:
            seen = completion_of_contender(outcome, contender, run.id.id, run.task)
            observers.completions([seen] if seen else [])

        run = BenchmarkRun(config, corpus, judge, tell)
        try:
            yield run
        finally:
            run.cache.close()


@task(name="look up run", task_run_name="look up the run of {config.model}", **RETRIED)
async def look_up_run(config: BenchmarkConfig) -> BenchmarkConfig:
    """The benchmark's settings, those that were not given taken from the model's run."""
    return await asyncio.to_thread(with_settings_of_its_run, config, open_store(config.store))


@task(name="load test documents", task_run_name="load test documents of {config.model}", **RETRIED)
async def load_test_documents(config: BenchmarkConfig) -> Corpus:
    """Read what a benchmark is made on: documents of its own, or those held out from training."""
    left_out: list[str] = []
    if config.test_documents is not None:
        corpus = await asyncio.to_thread(load_others, config.test_documents, left_out.append)
    else:
        corpus = await asyncio.to_thread(load_corpus, config.documents, left_out.append)
    for sentence in left_out:
        get_run_logger().warning("%s", sentence)
    return corpus


@task(name="line up", task_run_name="line up {run.name} and the others", **RETRIED)
async def line_up(run: BenchmarkRun) -> TrainedLineup | None:
    """Which checkpoints take part; None where none is to.

    Raises:
        ConfigError: a hosted model's key is not set, or the model was trained on other documents
            than the benchmark's.
        StoreError: the store holds no such model.
    """
    # Only to see that all keys are set, before a trainer is started for nothing.
    list_hosted(run.config, run.task, Environment().keys())
    await run.cache.open()
    logger = get_run_logger()
    trained = await asyncio.to_thread(
        line_up_trained, run.store, run.config, run.corpus, logger.warning
    )
    if run.config.test_documents and trained and trained.documents_seen == 0:
        count = len(run.corpus.validation)
        logger.info("%s was trained on none of these %d documents.", run.name, count)
    return trained


@asynccontextmanager
async def serve_others(
    run: BenchmarkRun, standins: ChildService
) -> AsyncIterator[list[ContenderSpec]]:
    """The hosted models, a rehearsed one, and the baselines, while the block lasts.

    Raises:
        ConfigError: a hosted model's key is not set, or the rehearsed model is none.
        StoreError: the store does not hold it.
    """
    hosted = list_hosted(run.config, run.task, Environment().keys())
    baselines = list_baselines(run.config, run.task, standins)
    corpus = None if run.config.test_documents else run.corpus.digest
    async with serve_rehearsed(run.store, run.config, run.task, corpus) as extractive:
        yield [*hosted, *extractive, *baselines]


@task(name="forecast", task_run_name="forecast of {run.name}'s benchmark", **RETRIED)
async def announce_cost(run: BenchmarkRun, contenders: Sequence[ContenderSpec]) -> None:
    """Say what the benchmark will cost, before it costs anything."""
    config = run.config
    async with AsyncExitStack() as stack:
        clients = []
        for contender in contenders:
            clients.append(await stack.enter_async_context(run.client_of(contender)))
        ahead = await estimate_cost(
            clients,
            run.referee,
            run.corpus.validation,
            config.judge,
            run.judge.identity["model"],
            run.task,
        )
    logger = get_run_logger()
    if ahead.summaries or ahead.judging:
        logger.info("%s", ahead)
    if config.dollars_max is not None and ahead.least_usd > config.dollars_max:
        logger.warning(
            "dollars_max, $%.2f, will not last: what is left over goes unscored, and a later "
            "benchmark makes up for it.",
            config.dollars_max,
        )


async def measure_all(
    run: BenchmarkRun, checkpoints: CheckpointServer | None, others: Sequence[ContenderSpec]
) -> Measured:
    """The ceiling and every contender: hosted ones at the same time, our own in turn."""

    async def measure_turn(contenders: Sequence[ContenderSpec]) -> list[ContenderResults]:
        return [await measure_any(contender) for contender in contenders]

    async def measure_any(contender: ContenderSpec) -> ContenderResults:
        if checkpoints is None or contender.contender.model != TRAINED:
            return await measure_contender(run, contender)
        measure_checkpoint = partial(measure_contender, run)
        return await checkpoints.with_checkpoint(contender.contender, measure_checkpoint)

    trained = checkpoints.contenders if checkpoints else []
    in_turn = [partial(measure_turn, group) for group in turns([*trained, *others])]
    work: list[Callable[[], Awaitable[Any]]] = [partial(measure_full, run), *in_turn]
    async with judge_slots(run.config):
        ceiling, *turns_of_results = await run_together(work)
    results: list[ContenderResults] = list(chain.from_iterable(turns_of_results))
    frame = pl.concat([one.rows for one in results])
    return Measured(frame, pl.concat([one.questions for one in results]), ceiling)


@task(name="measure", task_run_name="measure {contender.contender}", **RETRIED)
async def measure_contender(
    run: BenchmarkRun, contender: ContenderSpec, trainer: RemoteTrainer | None = None
) -> ContenderResults:
    """One contender's rows: one for each held-out document.

    Args:
        trainer: that serves it, if it is a checkpoint.

    Raises:
        TrainerLost: the trainer is gone.
    """
    tell = partial(run.tell, contender)
    async with run.client_of(contender) as client:
        outcomes = await measure(client, run.referee, run.corpus.validation, tell)
    if trainer is not None and any(map(_is_unreachable, outcomes)):
        # Raises if it is the trainer that is gone, and not the network for a moment.
        await trainer.state(trainable(run.config))
    return results_of(contender, outcomes, run.judge, run.corpus, run.id)


@task(name="ceiling", task_run_name="ceiling: full documents", **RETRIED)
async def measure_full(run: BenchmarkRun) -> float | None:
    """What the judge answers from the full documents: more can't be had."""
    return await measure_ceiling(run.store, run.judge, run.corpus)


def _is_unreachable(outcome: JudgedSummary) -> bool:
    return outcome.verdict.cause == UNREACHABLE
