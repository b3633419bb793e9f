"""A benchmark's end: it is set beside those before, and its report is published."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from prefect import task
from prefect.artifacts import acreate_markdown_artifact
from prefect.events import emit_event
from prefect.logging import get_run_logger
from prefect.runtime import flow_run

from precis.benchmark.lineup import (
    TrainedLineup,
)
from precis.benchmark.measure import Measured, report_folder
from precis.benchmark.report import benchmark_facts
from precis.benchmark.run import BenchmarkRun, Comparison, compare
from precis.observe.samples import tell_benchmark
from precis.observe.wandb import wandb_log
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
from precis.report.wording import Words
from precis.training.run import work_folder
from tasks.policy import RETRIED
from tasks.ui import artifact_key


@dataclass(frozen=True)
class BenchmarkReport:
    """Where a benchmark's results lie in the store, and its standings as text.

    Attributes:
        held_out: how many scenarios it was made on, in words.
        headings: of the standings.
        standings: contender, measure with interval, and the first figures besides; best first.
        usd: what it has spent on contenders and scoring.
        regressions: who is worse than in the benchmarks before, beyond chance; a sentence each.
        caveat: what is to be known of all its figures; empty for nothing.
    """

    model: str
    steps: int
    folder: str
    held_out: str
    headings: tuple[str, ...]
    standings: tuple[tuple[str, ...], ...]
    usd: float = 0.0
    regressions: tuple[str, ...] = ()
    caveat: str = ""


@task(name="compare nights", task_run_name="compare {run.name} with before", **RETRIED)
async def compare_with_before(
    run: BenchmarkRun, trained: TrainedLineup | None, measured: Measured
) -> Comparison:
    """Set this benchmark against those before, and emit an event where somebody is worse."""
    comparison = await asyncio.to_thread(compare, run, measured)
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
    folder = report_folder(run.name, steps, config, run.environment.digest)
    benchmark = benchmark_of(
        measured.frame,
        # Its accuracies are of the held-out documents.
        curve_of(ledger) if ledger and not config.test_documents else [],
        measured.ceiling,
        comparison.before,
        comparison.changes,
        measured.questions,
        _words(run, measured),
        measured.attempts,
    )
    facts = benchmark_facts(run, trained, comparison)
    page = report_html(benchmark, facts, published=config.published)
    await asyncio.to_thread(store_report, run.store, run.name, run.id.id, folder, benchmark, page)
    await _tell_wandb(run, ledger.run_id if ledger else run.id.id, benchmark)
    await acreate_markdown_artifact(
        key=artifact_key(run.name, "benchmark"),
        markdown=benchmark_report(benchmark)
        + nightly_section(comparison.changes, comparison.nights, run.environment.nouns),
        description=f"Benchmark of {run.name} after {steps} steps",
    )
    headings, *standings = standings_lines(benchmark)
    return BenchmarkReport(
        run.name,
        steps,
        f"{run.store.url}/{folder}",
        _held_out(run),
        headings,
        tuple(standings),
        run.budget.usd,
        comparison.regressions,
        run.environment.caveat,
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
    folder = own_folder(
        report_folder(run.name, steps, run.config, run.environment.digest), run.id.id
    )
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


def _held_out(run: BenchmarkRun) -> str:
    count = len(run.environment.scenarios("validation"))
    nouns = run.environment.nouns
    return f"{count} held-out {nouns.scenario if count == 1 else nouns.scenarios}"


def _words(run: BenchmarkRun, measured: Measured) -> Words:
    """The words of the report: the environment's."""
    environment = run.environment
    figure = measured.figure
    columns = environment.columns
    return Words(
        environment.nouns,
        figure.name,
        figure.is_share,
        columns,
        environment.method,
        environment.caveat,
        environment.disqualifiers,
    )


def _steps_of(trained: TrainedLineup | None) -> int:
    """How many steps the model has been trained."""
    return trained.ledger.next_step if trained else 0
