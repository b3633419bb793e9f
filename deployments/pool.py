"""What a server holds of ours: the work pool, and the deployments in it."""

from prefect import get_client
from prefect.client.schemas.actions import WorkPoolCreate
from prefect.client.schemas.filters import WorkPoolFilter, WorkPoolFilterName
from prefect.exceptions import ObjectNotFound
from prefect.workers.process import ProcessWorker

from deployments.worker import POOL


async def ensure() -> None:
    """Make the work pool if it is not there."""
    async with get_client() as client:
        try:
            await client.read_work_pool(POOL)
        except ObjectNotFound:
            template = ProcessWorker.get_default_base_job_template()
            pool = WorkPoolCreate(name=POOL, type="process", base_job_template=template)
            await client.create_work_pool(pool)


async def deployments() -> list[str]:
    """The names of the deployments in the pool, as `prefect deployment run` takes them."""
    async with get_client() as client:
        flows = {flow.id: flow.name for flow in await client.read_flows()}
        named = WorkPoolFilter(name=WorkPoolFilterName(any_=[POOL]))
        found = await client.read_deployments(work_pool_filter=named)
    return sorted(f"{flows[each.flow_id]}/{each.name}" for each in found)
