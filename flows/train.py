"""The training flow; `precis/training/loop.py` defines a step."""

from prefect import flow
from prefect.runtime import flow_run

from flows.benchmark import benchmark_with
from precis.benchmark.report import BenchmarkReport
from precis.config import BenchmarkConfig, TrainConfig
from precis.processes.child import Launch, child_service
from precis.runs.shortcomings import nothing_to_train
from precis.store import open_store
from precis.training.loop import TrainingLoop
from precis.training.opening import open_environment, open_run
from precis.training.preflight import find_finished_run
from tasks.parameters import named, takes_settings
from tasks.preflight import announce_cost, preflight
from tasks.secrets import adopt_secrets
from tasks.states import completed, says_why_it_stops, show_crashed
from tasks.training import STAGES, load_documents, start_trainer
from tasks.ui import announce_trained


@flow(name="train", flow_run_name=named("train {model} to step {steps}"), validate_parameters=False)
@says_why_it_stops
@takes_settings(TrainConfig)
async def train(config: TrainConfig) -> BenchmarkReport | None:
    """Train a model from its last commit on, and benchmark it.

    Returns the benchmark's report, or None if `config.benchmark` is off.
    """
    return await run_training(config)


async def run_training(
    config: TrainConfig, launch: Launch = child_service
) -> BenchmarkReport | None:
    """Do the flow's work, inside a flow run. `launch` starts a local trainer, and the judge's
    stand-in."""
    await adopt_secrets()
    async with open_environment(config, launch, load_documents) as environment:
        await preflight(config, environment)
        finished = None if config.benchmark else await find_finished_run(config)
        if finished is not None:  # a trainer would be started, or a machine rented, for nothing
            announce_trained(config)
            store = open_store(config.store).url
            return completed(finished, None, nothing_to_train(finished, config.steps, store))
        await announce_cost(config, environment)  # while nothing is rented yet
        name = f"{config.model} ({flow_run.id})"
        async with open_run(config, environment, name, launch, start_trainer) as run:
            await show_crashed(run.lease.dead)
            loop = TrainingLoop(run, STAGES)
            await loop.resume()
            idle = nothing_to_train(run.ledger, config.steps, run.store.url)
            await loop.train()
            if config.benchmark:
                benchmark = benchmark_with(environment, run.trainer)
                settings = {**dict(BenchmarkConfig.of(config)), "dollars_max": run.usd_left}
                report: BenchmarkReport = await benchmark(**settings)
                return completed(run.ledger, report, idle)
    announce_trained(config)
    return completed(run.ledger, None, idle)
