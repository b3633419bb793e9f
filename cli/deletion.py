"""Deletion of a run's records in Prefect: its flow runs and their artifacts."""

import asyncio
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from cli import prefect_process as process
from cli import prefect_server as server
from precis.config import RunConfig
from precis.environment import Variables
from precis.errors import ConfigError
from precis.settings.overrides import merge_config
from precis.store import open_store

_PAGE = 200


async def delete_from_prefect(model: str, store: str) -> int:
    """Delete the flow runs of a model in a store, with their artifacts; return their number.

    Our own server is started if it is not up, and stopped again.
    """
    if (
        await asyncio.to_thread(server.find) is None
        and not (process.home() / "prefect.db").exists()
    ):
        return 0
    # In a thread: it runs another event loop, and ours has a lease to renew meanwhile.
    found = await asyncio.to_thread(server.find_or_start)
    try:
        await found.wait()
        from prefect import get_client
        from prefect.client.schemas.filters import FlowFilter, FlowFilterName

        from cli.live_runs import read_all
        from cli.server_check import explained

        flows = FlowFilter(name=FlowFilterName(any_=["train", "benchmark"]))
        deleted = 0
        with explained(f"delete the runs of {model!r}"):
            async with get_client() as client:
                for run in await read_all(client, flow_filter=flows):
                    if is_of(run.parameters, model, store):
                        await _delete_artifacts(client, run.id)
                        await client.delete_flow_run(run.id)
                        deleted += 1
        return deleted
    finally:
        if found.started:
            await asyncio.to_thread(server.stop)


def is_of(parameters: Mapping[str, Any], model: str, store: str) -> bool:
    """Return whether a flow run with these parameters worked on a model in a store."""
    given = merge_config(parameters)
    named = given.get("model") or RunConfig.model_fields["model"].default
    if named != model:
        return False
    try:
        return open_store(str(given.get("store") or Variables().store)).url == store
    except ConfigError:  # a run that failed for lack of such a store
        return False


async def _delete_artifacts(client: Any, run: UUID) -> None:
    from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId

    of_run = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run]))
    while True:
        page = await client.read_artifacts(artifact_filter=of_run, limit=_PAGE)
        if not page:
            return
        for artifact in page:
            await client.delete_artifact(artifact.id)
