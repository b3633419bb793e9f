"""The benchmark's steps: what it will cost, what each contender achieves, and the report."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl
from prefect import task
from prefect.artifacts import acreate_markdown_artifact
from prefect.events import emit_event
from prefect.logging import get_run_logger
from prefect.runtime import flow_run

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
    measure,
    measure_ceiling,
    report_folder,
    results_of,
    with_settings_of_its_run,
)
from precis.benchmark.report import benchmark_facts
from precis.benchmark.run import BenchmarkRun, Comparison, Measured, compare
from precis.config import BenchmarkConfig
from precis.environment import Environment
from precis.judge import JudgeClient
from precis.llm.concurrency import run_together
from precis.observe.completions import completion_of_contender
from precis.observe.observers import observing
from precis.observe.samples import tell_benchmark
from precis.observe.wandb import wandb_log
from precis.processes.child import ChildService
from precis.records.documents import Corpus, load_corpus, load_others
from precis.records.metrics import step_metrics
from precis.records.results import TRAINED
from precis.records.summary import JudgedSummary
from precis.report.benchmark_view import Benchmark, benchmark_of
from precis.report.curve import curve_of
from precis.report.markdown import benchmark_report
from precis.report.nights import (
    REGRESSION,
    nightly_section,
    regression_payload,
    verdict_in_words,
)
from precis.report.page import report_html
from precis.report.publish import own_folder, standings_lines, store_report
from precis.store import open_store
from precis.trainer.client import RemoteTrainer
from precis.training.run import trainable, work_folder
from precis.training.serving import CheckpointServer
from tasks.policy import RETRIED
from tasks.rollouts import judge_slots
from tasks.ui import artifact_key


@dataclass(frozen=True)
class BenchmarkReport:
    """Where a benchmark's results lie in the store, and its standings as text.

    Attributes:
        standings: contender, accuracy with interval, words, share over the limit; best first.
        usd: what it has spent on summaries and verdicts.
        regressions: who is worse than in the benchmarks before, beyond chance; a sentence each.
    """

    model: str
    steps: int
    folder: str
    standings: tuple[tuple[str, str, str, str], ...]
    usd: float = 0.0
    regressions: tuple[str, ...] = ()


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
    if config.test_documents is not None:
        return await asyncio.to_thread(load_others, config.test_documents)
    return await asyncio.to_thread(load_corpus, config.documents)


@task(name="line up", task_run_name="line up {run.name} and the others", **RETRIED)
async def line_up(run: BenchmarkRun) -> TrainedLineup | None:
    """Which checkpoints take part; None where none is to.

    Raises:
        ConfigError: a hosted model's key is not set, or the model was trained on other documents
            than the benchmark's.
        StoreError: the store holds no such model.
    """
    list_hosted(run.config, run.task, Environment().keys())
    await run.cache.open()
    warn = get_run_logger().warning
    return await asyncio.to_thread(line_up_trained, run.store, run.config, run.corpus, warn)


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
        clients = [
            await stack.enter_async_context(run.client_of(contender)) for contender in contenders
        ]
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

    async def measure_turn(contenders: Sequence[ContenderSpec]) -> list[pl.DataFrame]:
        return [await measure_any(contender) for contender in contenders]

    async def measure_any(contender: ContenderSpec) -> pl.DataFrame:
        if checkpoints is None or contender.contender.model != TRAINED:
            return await measure_contender(run, contender)
        measure_checkpoint = partial(measure_contender, run)
        return await checkpoints.with_checkpoint(contender.contender, measure_checkpoint)

    trained = checkpoints.contenders if checkpoints else []
    in_turn = [partial(measure_turn, group) for group in turns([*trained, *others])]
    work: list[Callable[[], Awaitable[Any]]] = [partial(measure_full, run), *in_turn]
    async with judge_slots(run.config):
        ceiling, *frames = await run_together(work)
    return Measured(pl.concat(frame for group in frames for frame in group), ceiling)


@task(name="measure", task_run_name="measure {contender.contender}", **RETRIED)
async def measure_contender(
    run: BenchmarkRun, contender: ContenderSpec, trainer: RemoteTrainer | None = None
) -> pl.DataFrame:
    """One contender's rows: a question of a held-out document each.

    Args:
        trainer: that serves it, if it is a checkpoint.

    Raises:
        TrainerLost: the trainer is gone.
    """
    tell = partial(run.tell, contender)
    async with run.client_of(contender) as client:
        outcomes = await measure(client, run.referee, run.corpus.validation, tell)
    if trainer is not None and any(map(_is_unreachable, outcomes)):
        await trainer.state(trainable(run.config))
    return results_of(contender, outcomes, run.judge, run.corpus, run.id)


@task(name="ceiling", task_run_name="ceiling: full documents", **RETRIED)
async def measure_full(run: BenchmarkRun) -> float | None:
    """What the judge answers from the full documents: more can't be had."""
    return await measure_ceiling(run.store, run.judge, run.corpus)


@task(name="compare nights", task_run_name="compare {run.name} with before", **RETRIED)
async def compare_with_before(
    run: BenchmarkRun, trained: TrainedLineup | None, measured: Measured
) -> Comparison:
    """Set this benchmark against those before, and emit an event where somebody is worse."""
    comparison = await asyncio.to_thread(compare, run, measured.frame)
    if comparison.regressions:
        sentence = verdict_in_words(comparison.changes, comparison.nights)
        get_run_logger().warning("%s", sentence)
        _emit_regression(run, _steps_of(trained), comparison)
    return comparison


@task(name="report", task_run_name="report on {run.name}", **RETRIED)
async def publish_report(
    run: BenchmarkRun, trained: TrainedLineup | None, measured: Measured, comparison: Comparison
) -> BenchmarkReport:
    """Put results, charts and page into the store, and the report into Prefect's UI."""
    config = run.config
    ledger = trained.ledger if trained else None
    steps = _steps_of(trained)
    folder = report_folder(run.name, steps, config, run.corpus)
    benchmark = benchmark_of(
        measured.frame,
        # Its accuracies are of the held-out documents.
        curve_of(ledger) if ledger and not config.test_documents else [],
        measured.ceiling,
        config.rollouts.words_max,
        comparison.before,
        comparison.changes,
    )
    metrics = [step_metrics(ledger, record.step) for record in ledger.steps] if ledger else []
    facts = benchmark_facts(run, trained, comparison)
    page = report_html(benchmark, metrics, facts, published=config.published)
    await asyncio.to_thread(store_report, run.store, run.name, run.id.id, folder, benchmark, page)
    await _tell_wandb(run, ledger.run_id if ledger else run.id.id, benchmark)
    await acreate_markdown_artifact(
        key=artifact_key(run.name, "benchmark"),
        markdown=benchmark_report(benchmark)
        + nightly_section(comparison.changes, comparison.nights),
        description=f"Benchmark of {run.name} after {steps} steps",
    )
    return BenchmarkReport(
        run.name,
        steps,
        f"{run.store.url}/{folder}",
        standings_lines(benchmark),
        run.budget.usd,
        comparison.regressions,
    )


async def _tell_wandb(run: BenchmarkRun, run_id: str, benchmark: Benchmark) -> None:
    """Log to the W&B run of the training, where there is a key; it is waited for a bounded time."""
    files = work_folder(run.config) / "wandb"
    with TemporaryDirectory() as folder:
        async with wandb_log(run.name, run_id, run.config.model_dump(), files) as log:
            if log:
                await asyncio.to_thread(tell_benchmark, log, run.name, benchmark, Path(folder))


def _emit_regression(run: BenchmarkRun, steps: int, comparison: Comparison) -> None:
    related = [
        {
            "prefect.resource.id": f"prefect.flow-run.{flow_run.id}",
            "prefect.resource.role": "flow-run",
            "prefect.resource.name": flow_run.name or "",
        }
    ]
    folder = own_folder(report_folder(run.name, steps, run.config, run.corpus), run.id.id)
    report = f"{run.store.url}/{folder}report.html"
    emit_event(
        REGRESSION,
        resource={
            "prefect.resource.id": f"precis.model.{run.name}",
            "prefect.resource.name": run.name,
        },
        related=related if flow_run.id else [],
        payload=regression_payload(comparison.changes, comparison.nights, run.name, report),
    )


def _steps_of(trained: TrainedLineup | None) -> int:
    """How many steps the model has been trained."""
    return trained.ledger.next_step if trained else 0


def _is_unreachable(outcome: JudgedSummary) -> bool:
    return outcome.verdict.cause == UNREACHABLE
