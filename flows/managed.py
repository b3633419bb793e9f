"""The training flow as a SkyPilot managed job: launched here, executed on a rented machine."""

from prefect import flow
from prefect.logging import get_run_logger

from flows.train import train as training
from precis.config import ManagedConfig
from precis.training.opening import open_environment
from tasks.managed import find_job, launch_job
from tasks.parameters import named, takes_settings
from tasks.preflight import preflight
from tasks.secrets import adopt_secrets
from tasks.states import says_why_it_stops
from tasks.training import load_documents


@flow(
    name="train",
    flow_run_name=named("launch the managed job of {model}"),
    validate_parameters=False,
)
@says_why_it_stops
@takes_settings(ManagedConfig)
async def train(config: ManagedConfig) -> None:
    """Launch a managed job that trains a summarizer, unless it is already running, and return."""
    await adopt_secrets()
    job = await find_job(config)
    if job is None:
        async with open_environment(config, read=load_documents) as environment:
            await preflight(config, environment)
        job = await launch_job(config, training)
    get_run_logger().info("%s", job)
