"""The benchmark flow: checkpoints, hosted models and baselines on the held-out scenarios."""

from collections.abc import Coroutine
from typing import Any

from prefect import Flow, flow
from prefect.runtime import flow_run

from flows import only_process
from precis.benchmark.report import BenchmarkReport
from precis.benchmark.run import open_benchmark, serve_others
from precis.config import OF_A_RUN, BenchmarkConfig
from precis.environments.protocol import Environment
from precis.training.connection import TrainerConnection
from precis.training.opening import open_environment
from precis.training.serving import checkpoints_of, serve_checkpoints
from tasks.benchmark import (
    announce_cost,
    compare_with_before,
    fetch_checkpoints,
    line_up,
    look_up_run,
    measure_all,
    publish_report,
)
from tasks.parameters import named, takes_settings
from tasks.secrets import adopt_secrets
from tasks.states import said, says_why_it_stops, show_running_as
from tasks.training import load_documents, start_trainer


@flow(name="benchmark", flow_run_name=named("benchmark {model}"), validate_parameters=False)
@says_why_it_stops
@takes_settings(BenchmarkConfig, OF_A_RUN)
async def benchmark(config: BenchmarkConfig) -> BenchmarkReport:
    """Compare a model's checkpoints with hosted models and baselines, and publish a report."""
    await adopt_secrets()
    config = await look_up_run(config)
    async with only_process(), open_environment(config, read=load_documents) as environment:
        return await run_benchmark(config, environment)


def benchmark_with(
    environment: Environment, trainer: TrainerConnection
) -> Flow[..., Coroutine[Any, Any, BenchmarkReport]]:
    """Return the same flow, as a sub-flow of one that has started environment and trainer."""

    @flow(name="benchmark", flow_run_name=named("benchmark {model}"), validate_parameters=False)
    @says_why_it_stops
    @takes_settings(BenchmarkConfig)
    async def benchmark(config: BenchmarkConfig) -> BenchmarkReport:
        return await run_benchmark(config, environment, trainer)

    return benchmark


async def run_benchmark(
    config: BenchmarkConfig,
    environment: Environment,
    trainer: TrainerConnection | None = None,
) -> BenchmarkReport:
    """Do the flow's work, inside a flow run. `trainer` serves the checkpoints; if None, one is
    started if any checkpoint takes part."""
    async with open_benchmark(config, environment) as run:
        trained = await line_up(run)
        async with serve_others(run) as others:
            checkpoints = checkpoints_of(run, trained) if trained else []
            await announce_cost(run, [*checkpoints, *others])  # while nothing is rented yet
            async with serve_checkpoints(
                run,
                trained,
                trainer,
                start=start_trainer,
                fetch=fetch_checkpoints,
                show=show_running_as,
                name=f"benchmark {flow_run.id}",
            ) as served:
                measured = await measure_all(run, served, others)
        comparison = await compare_with_before(run, trained, measured)
        report = await publish_report(run, trained, measured, comparison)
    return said(report, report.incomplete)
