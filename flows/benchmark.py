"""The benchmark flow: checkpoints, hosted models and baselines on the held-out documents."""

from collections.abc import Coroutine
from typing import Any

from prefect import Flow, flow

from precis.config import BenchmarkConfig
from precis.environments.summaries.services import Services, start_services
from precis.processes.child import Launch, child_service
from precis.training.connection import TrainerConnection
from precis.training.opening import standins_log
from tasks.benchmark import (
    announce_cost,
    line_up,
    load_test_documents,
    look_up_run,
    measure_all,
    open_benchmark,
    serve_others,
)
from tasks.benchmark_report import BenchmarkReport, compare_with_before, publish_report
from tasks.parameters import named, takes_settings
from tasks.secrets import adopt_secrets
from tasks.serving import serve_checkpoints
from tasks.states import says_why_it_stops


@flow(name="benchmark", flow_run_name=named("benchmark {model}"), validate_parameters=False)
@says_why_it_stops
@takes_settings(BenchmarkConfig)
async def benchmark(config: BenchmarkConfig) -> BenchmarkReport:
    """Compare a model's checkpoints with hosted models and baselines, and publish a report."""
    await adopt_secrets()
    config = await look_up_run(config)
    async with start_services(config, standins_log(config)) as services:
        return await run_benchmark(config, services)


def benchmark_with(
    services: Services, trainer: TrainerConnection
) -> Flow[..., Coroutine[Any, Any, BenchmarkReport]]:
    """The same flow, for a flow that has judge and trainer up: shown as its sub-flow."""

    @flow(name="benchmark", flow_run_name=named("benchmark {model}"), validate_parameters=False)
    @says_why_it_stops
    @takes_settings(BenchmarkConfig)
    async def benchmark(config: BenchmarkConfig) -> BenchmarkReport:
        return await run_benchmark(config, services, trainer)

    return benchmark


async def run_benchmark(
    config: BenchmarkConfig,
    services: Services,
    trainer: TrainerConnection | None = None,
    launch: Launch = child_service,
) -> BenchmarkReport:
    """What the flow does, inside a flow run.

    Args:
        trainer: serves the checkpoints; without one, one is started where any takes part.
    """
    assert services.standins is not None
    corpus = await load_test_documents(config)
    async with open_benchmark(config, corpus, services.judge) as run:
        trained = await line_up(run)
        async with (
            serve_others(run, services.standins) as others,
            serve_checkpoints(run, trained, trainer, launch) as checkpoints,
        ):
            trained_contenders = checkpoints.contenders if checkpoints else []
            await announce_cost(run, [*trained_contenders, *others])
            measured = await measure_all(run, checkpoints, others)
        comparison = await compare_with_before(run, trained, measured)
        return await publish_report(run, trained, measured, comparison)
