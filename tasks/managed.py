"""A run as a managed job: found or launched, and shown."""

import asyncio
from typing import Any

from prefect import Flow, get_client
from prefect.logging import get_run_logger
from prefect.settings import get_current_settings
from prefect.states import Cancelled

from precis.cluster import jobs
from precis.cluster.jobs import ManagedJob
from precis.cluster.keys import cluster_name
from precis.cluster.managed import ServerAccess, check_reach, managed_task
from precis.cluster.offers import check_placement, prices
from precis.config import ManagedConfig
from precis.errors import ClusterError
from precis.runs.lease import check_free
from precis.store import open_store
from tasks.policy import retried


@retried("find job", "find the job of {config.model}")
async def find_job(config: ManagedConfig) -> ManagedJob | None:
    """Return the run's active job, or None. Raises ConfigError for a setting out of its reach."""
    check_reach(config, _server(config).url)
    return await jobs.find(cluster_name(config.model, config.store))


@retried("launch job", "launch the job of {config.model}")
async def launch_job(config: ManagedConfig, training: Flow[Any, Any]) -> ManagedJob:
    """Have SkyPilot execute a new run of the training flow; a retry finds the first try's job.
    Raises ClusterError if SkyPilot has no such machine or its jobs controller did not accept it,
    and LeaseHeld if another run works on the model."""
    name = cluster_name(config.model, config.store)
    present = await jobs.find(name)
    if present is not None:
        return present
    if not config.take_over:
        await asyncio.to_thread(check_free, open_store(config.store), config.model)
    await check_placement(config.cluster)
    offered = await prices(config.cluster)
    logger = get_run_logger()
    async with get_client() as client:
        # Without a deployment, so that no worker takes it.
        run = await client.create_flow_run(
            training,
            name=f"train {config.model} to step {config.steps}",
            parameters={"config": config.on_its_machine().model_dump(mode="json")},
            tags=["precis", "train", "managed"],
        )
    try:
        described = managed_task(config, str(run.id), _server(config), offered)
        deadline_s = config.cluster.provision_timeout_s
        job, is_controller_here = await jobs.launch(described, name, logger.info, deadline_s)
    except BaseException as error:
        if isinstance(error, ClusterError) and await _may_be_taken(name):
            logger.warning(
                "Whether SkyPilot has taken the job can't be said: %s (%s) stays for it.",
                run.name,
                run.id,
            )
        else:
            message = "Its managed job was not launched."
            async with get_client() as client:
                await client.set_flow_run_state(run.id, Cancelled(message=message), force=True)
        raise
    logger.info("It executes the flow run %s (%s).", run.name, run.id)
    if is_controller_here:
        logger.warning(
            "SkyPilot's jobs controller is part of its API server on this machine: while this "
            "machine is off, a lost one is not started again. docs/managed.md has other places."
        )
    return ManagedJob(job, name, "PENDING", 0)


async def _may_be_taken(name: str) -> bool:
    """Return whether there may be a job of this name: SkyPilot has one, or does not answer."""
    try:
        return await jobs.find(name) is not None
    except ClusterError:
        return True


def _server(config: ManagedConfig) -> ServerAccess:
    """Return this process's Prefect server, by the address for the job."""
    api = get_current_settings().api
    keys = {"PREFECT_API_AUTH_STRING": api.auth_string, "PREFECT_API_KEY": api.key}
    secrets = {name: key.get_secret_value() for name, key in keys.items() if key}
    return ServerAccess(config.prefect_api_url or api.url or "", secrets)
