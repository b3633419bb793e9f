"""The benchmark's steps: what it will cost, what each contender achieves, and the report."""

import asyncio
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
from prefect import task
from prefect.artifacts import acreate_markdown_artifact
from prefect.logging import get_run_logger

from precis.benchmark.client import UNREACHABLE, ContenderClient
from precis.benchmark.forecast import estimate_cost
from precis.benchmark.lineup import turns
from precis.benchmark.measure import TRAINED, measure, measure_ceiling, results_of
from precis.llm.concurrency import run_together
from precis.observe.completions import completion_of_contender
from precis.observe.samples import tell_benchmark
from precis.observe.wandb import wandb_log
from precis.records.metrics import step_metrics
from precis.records.results import results_key, write_results
from precis.records.summary import JudgedSummary
from precis.report import wording
from precis.report.benchmark import Benchmark, benchmark_of
from precis.report.curve import curve_of
from precis.report.files import report_files
from precis.report.html import report_html
from precis.report.markdown import benchmark_report
from precis.report.nightly import nightly_section, verdict_in_words
from precis.statistics.standings import Contender
from precis.training.run import trainable, work_folder
from tasks.artifacts import artifact_key
from tasks.judging import judge_slots
from tasks.lineup import BenchmarkRun, with_trainer
from tasks.policy import RETRIED


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


@task(name="forecast", task_run_name="forecast of {round.name}'s benchmark", **RETRIED)
async def foretell_cost(round: BenchmarkRun) -> None:
    """Say what the benchmark will cost, before it costs anything."""
    config = round.config
    logger = get_run_logger()
    ahead = await estimate_cost(
        round.writers,
        round.referee,
        round.corpus.validation,
        config.judge,
        round.services.judge.identity["model"],
        config.rollouts.words_max,
    )
    if ahead.summaries or ahead.judging:
        logger.info("%s", ahead)
    if config.dollars_max is not None and ahead.least_usd > config.dollars_max:
        logger.warning(
            "dollars_max, $%.2f, will not last: what is left over goes unscored, and a later "
            "benchmark makes up for it.",
            config.dollars_max,
        )


async def measure_all(round: BenchmarkRun) -> None:
    """The ceiling and every contender: hosted ones at the same time, our own in turn."""

    async def measured(contender: Contender) -> None:
        await measure_contender(round, round.writer_of(contender))

    async def in_turn(writers: list[ContenderClient]) -> None:
        for contender in [writer.entry.contender for writer in writers]:
            await with_trainer(round, partial(measured, contender))

    async with judge_slots(round.config):
        groups = [partial(in_turn, writers) for writers in turns(round.writers)]
        await run_together([partial(measure_full, round), *groups])


@task(name="measure", task_run_name="measure {writer.entry.contender}", **RETRIED)
async def measure_contender(round: BenchmarkRun, writer: ContenderClient) -> None:
    """One contender on every held-out document.

    Raises:
        TrainerLost: it is a checkpoint, and the trainer that served it is gone.
    """
    words_max = round.config.rollouts.words_max

    def tell(outcome: JudgedSummary) -> None:
        seen = completion_of_contender(outcome, writer.entry, round.night.id, words_max)
        round.observers.completions([seen] if seen else [])

    outcomes = await measure(writer, round.referee, round.corpus.validation, tell)
    if writer.entry.contender.model == TRAINED and any(map(_unreachable, outcomes)):
        await (await round.served()).trainer.state(trainable(round.config))
    judge = round.services.judge
    night = round.night
    round.frames.append(results_of(writer.entry, outcomes, judge, round.corpus, night))


@task(name="ceiling", task_run_name="ceiling: full documents", **RETRIED)
async def measure_full(round: BenchmarkRun) -> None:
    """What the judge answers from the full documents: more can't be had."""
    round.ceiling = await measure_ceiling(round.store, round.services.judge, round.corpus)


@task(name="report", task_run_name="report on {round.name}", **RETRIED)
async def publish_report(round: BenchmarkRun) -> BenchmarkReport:
    """Put results, charts and page into the store, and the report into Prefect's UI."""
    ledger = round.ledger
    frame = pl.concat(round.frames)
    benchmark = benchmark_of(
        frame,
        # Its accuracies are of the held-out documents.
        curve_of(ledger) if ledger and not round.config.test_documents else [],
        round.ceiling,
        round.config.rollouts.words_max,
        round.before,
        round.changes,
    )
    metrics = [step_metrics(ledger, one.step) for one in ledger.steps] if ledger else []
    page = report_html(benchmark, metrics, _facts(round), published=round.config.published)
    await asyncio.to_thread(_store_report, round, benchmark, page)
    await _tell_wandb(round, benchmark)
    await acreate_markdown_artifact(
        key=artifact_key(round.name, "benchmark"),
        markdown=benchmark_report(benchmark) + nightly_section(round.changes, round.nights),
        description=f"Benchmark of {round.name} after {round.steps} steps",
    )
    worse = tuple(str(change) for change in round.changes if change.is_regression)
    return BenchmarkReport(
        round.name, round.steps, round.folder_url, _lines(benchmark), round.budget.usd, worse
    )


async def _tell_wandb(round: BenchmarkRun, benchmark: Benchmark) -> None:
    """Log to the W&B run of the training, where there is a key; it is waited for a bounded time."""
    run_id = round.ledger.run_id if round.ledger else round.night.id
    settings = round.config
    with TemporaryDirectory() as folder:
        files = work_folder(settings) / "wandb"
        async with wandb_log(round.name, run_id, settings.model_dump(), files) as log:
            if log:
                await asyncio.to_thread(tell_benchmark, log, round.name, benchmark, Path(folder))


def _unreachable(outcome: JudgedSummary) -> bool:
    return outcome.verdict.cause == UNREACHABLE


def _facts(round: BenchmarkRun) -> dict[str, str]:
    written = round.budget.spend.usd
    judged = round.budget.usd - round.budget.spend.usd
    unpriced = ", some at an unknown price" if round.budget.spend.unpriced else ""
    return {
        "Model": round.name,
        "Judge": round.services.judge.identity["model"],
        "Seed": str(round.config.seed),
        "Documents": _documents(round),
        "Began": f"{round.night.began:%Y-%m-%d %H:%M} UTC",
        "Summaries": f"${written:,.2f}{unpriced}",
        "Judging": f"${judged:,.2f}",
        "Nights": verdict_in_words(round.changes, round.nights),
    }


def _documents(round: BenchmarkRun) -> str:
    count = len(round.corpus.validation)
    own = round.config.test_documents
    found = f"{count} of {own.source}" if own else f"{count} held out"
    return f"{found}, {round.trained_on} of them trained on" if round.trained_on else found


def _lines(benchmark: Benchmark) -> tuple[tuple[str, str, str, str], ...]:
    return tuple(
        (
            wording.name(each.contender),
            str(each.accuracy or "not scored"),
            wording.number(each.words),
            wording.percent(each.over_length),
        )
        for each in benchmark.shown
    )


def _store_report(round: BenchmarkRun, benchmark: Benchmark, page: str) -> None:
    store = round.store
    files = report_files(benchmark, page)
    with TemporaryDirectory() as temporary:
        results = Path(temporary) / "results.parquet"
        write_results(benchmark.frame, results)
        store.upload(results, results_key(round.name, round.night.id))
        for folder in (round.own_folder, round.folder):
            store.upload(results, f"{folder}results.parquet")
    for folder in (round.own_folder, round.folder):
        for name, content in files.items():
            store.put(f"{folder}{name}", content)
