"""Our work pool on a server, and the deployments in it."""

import importlib.util
import os
import sys
from collections.abc import Sequence
from uuid import UUID

from prefect import get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.filters import WorkPoolFilter, WorkPoolFilterName
from prefect.exceptions import ObjectNotFound
from prefect.workers.process import ProcessWorker

from cli.worker import POOL

_SLUG = "regular"


async def ensure() -> None:
    """Create the work pool if it does not exist."""
    async with get_client() as client:
        try:
            await client.read_work_pool(POOL)
        except ObjectNotFound:
            template = ProcessWorker.get_default_base_job_template()
            pool = WorkPoolCreate(name=POOL, type="process", base_job_template=template)
            await client.create_work_pool(pool)


async def schedule_of(deployment: str, needs: str = "") -> dict[str, bool | str]:
    """Return, for a build step of prefect.yaml, a deployment's schedule: its activity and slug.

    `prefect deploy` would reactivate a schedule that a user has switched off, and a deployment that
    one has paused. If a package that it needs is not installed, the schedule is off, under its own
    slug, until it is.
    """
    if needs and importlib.util.find_spec(needs) is None:
        return {"active": False, "slug": f"without-{needs}"}
    async with get_client() as client:
        try:
            known = await client.read_deployment_by_name(deployment)
        except ObjectNotFound:  # first deployment
            return {"active": True, "slug": _SLUG}
    active = not known.paused
    for one in known.schedules:
        if not (one.slug or "").startswith("without-"):
            active = active and one.active
    return {"active": active, "slug": _SLUG}


async def demand(variables: Sequence[str]) -> dict[str, str]:
    """End a deployment, for a build step, unless these variables are exported: Prefect would put
    nothing in their place, and a pod without a store loses its run's checkpoints."""
    missing = [name for name in variables if not os.environ.get(name)]
    if missing:
        # An exception would come with Prefect's traceback.
        sys.exit(f"Export {' and '.join(missing)} first: see docs/pools.md.")
    return {}


async def paused() -> list[UUID]:
    """Return the pool's paused deployments, which `prefect deploy` resumes."""
    async with get_client() as client:
        named = WorkPoolFilter(name=WorkPoolFilterName(any_=[POOL]))
        found = await client.read_deployments(work_pool_filter=named)
    return [each.id for each in found if each.paused]


async def pause(deployments: Sequence[UUID]) -> None:
    """Pause deployments."""
    async with get_client() as client:
        for each in deployments:
            await client.pause_deployment(each)


async def deployments() -> list[str]:
    """Return the names of the deployments in the pool, as in `prefect deployment run`."""
    async with get_client() as client:
        named = WorkPoolFilter(name=WorkPoolFilterName(any_=[POOL]))
        # Without the filter the server lists the first 200 of its flows.
        flows = {flow.id: flow.name for flow in await client.read_flows(work_pool_filter=named)}
        found = await client.read_deployments(work_pool_filter=named)
    return sorted(f"{flows[each.flow_id]}/{each.name}" for each in found)
