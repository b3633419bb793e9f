"""The stages of a benchmark as Prefect's tasks."""

import asyncio
from collections.abc import Sequence

from prefect.artifacts import acreate_markdown_artifact
from prefect.logging import get_run_logger

from precis.benchmark import report
from precis.benchmark import run as running
from precis.benchmark.contender import ContenderSpec
from precis.benchmark.lineup import TrainedLineup
from precis.benchmark.measure import Measured, with_settings_of_its_run
from precis.benchmark.report import BenchmarkReport
from precis.benchmark.run import BenchmarkRun
from precis.config import BenchmarkConfig
from precis.report.nights import REGRESSION, Comparison
from precis.store import open_store
from precis.training import serving
from precis.training.run import work_folder
from precis.training.serving import CheckpointServer
from tasks.policy import retried
from tasks.preflight import check_shared_limit
from tasks.training import judge_slots
from tasks.ui import artifact_key, emit


@retried("look up run", "look up the run of {config.model}")
async def look_up_run(config: BenchmarkConfig) -> BenchmarkConfig:
    """Return the benchmark's settings, completed from the model's run. A ConfigError says that they
    can't work."""
    config = await asyncio.to_thread(with_settings_of_its_run, config, open_store(config.store))
    await check_shared_limit(config)
    return config


line_up = retried("line up", "line up {run.name} and the others")(running.line_up)
announce_cost = retried("forecast", "forecast of {run.name}'s benchmark")(running.announce_cost)
fetch_checkpoints = retried("fetch checkpoints", "fetch checkpoints of {run.name}")(
    serving.fetch_checkpoints
)


async def measure_all(
    run: BenchmarkRun, checkpoints: CheckpointServer | None, others: Sequence[ContenderSpec]
) -> Measured:
    """Measure the ceiling and every contender."""
    async with judge_slots(run.config):
        return await serving.measure_all(
            run, checkpoints, others, measure_contender, measure_ceiling
        )


measure_contender = retried("measure", "measure {contender.contender}")(serving.measure_contender)


@retried("ceiling", "ceiling of {run.name}'s benchmark")
async def measure_ceiling(run: BenchmarkRun) -> float | None:
    """Return the best result that a policy could reach, where the environment knows it."""
    return await run.environment.ceiling(run.store)


@retried("compare nights", "compare {run.name} with before")
async def compare_with_before(
    run: BenchmarkRun, trained: TrainedLineup | None, measured: Measured
) -> Comparison:
    """Compare this benchmark with earlier ones; emit an event if a contender got worse."""
    comparison = await asyncio.to_thread(running.compare, run, measured)
    if comparison.regressions:
        get_run_logger().warning("%s", comparison.verdict)
        page = f"{run.store.url}/{report.report_folder(run, trained)}{run.id}/report.html"
        told = {"model": run.name, "report": page, "message": comparison.verdict}
        emit(REGRESSION, run.name, told)
    return comparison


@retried("report", "report on {run.name}")
async def publish_report(
    run: BenchmarkRun, trained: TrainedLineup | None, measured: Measured, comparison: Comparison
) -> BenchmarkReport:
    """Write results, charts and page to the store, and the report to Prefect's UI."""
    get_run_logger().info("Drawing the charts and writing the report.")
    wandb_folder = work_folder(run.config) / "wandb"
    published, markdown = await report.publish(run, trained, measured, comparison, wandb_folder)
    await acreate_markdown_artifact(
        key=artifact_key(run.name, "benchmark"),
        markdown=markdown,
        description=f"Benchmark of {run.name}, step {published.steps}",
    )
    return published
