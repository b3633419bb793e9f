"""Deletion of a run: its records in the store and in Prefect, and its files on this machine."""

import asyncio
import shutil
from collections.abc import Callable, Coroutine, Mapping
from typing import Any
from uuid import UUID

from cli import prefect_process as process
from cli import prefect_server as server
from precis.config import RunConfig
from precis.environment import Variables
from precis.errors import ConfigError
from precis.models.serving import delete_adapter_copies
from precis.records.ledger import ledger_key
from precis.runs.lease import lease_key, leased, read_lease
from precis.runs.overview import sizes_of_run
from precis.runs.reports import delete_report_copies
from precis.settings.overrides import merge_config
from precis.store import Store, open_store
from precis.training.run import work_folder

_PAGE = 200


async def delete(
    store: Store, model: str, elsewhere: Callable[[], Coroutine[Any, Any, int]]
) -> int:
    """Delete a run for good: elsewhere, on this machine, then in the store.

    The model's lease is held meanwhile and goes last; a LeaseHeld says that a live run has it. If
    interrupted, it can be repeated. Returns the result of `elsewhere`, which deletes in Prefect.
    """
    sizes_of_run(store, model)
    remedy = "Stop it first: a run that is at work can't be deleted."
    async with leased(store, model, "delete", remedy=remedy) as lease:
        runs = await elsewhere()
        await lease.check()
        await asyncio.to_thread(_delete_records, store, model)
    left = await asyncio.to_thread(read_lease, store, model)
    if left is None or left.id == lease.id:  # else another run has begun under the name
        await asyncio.to_thread(store.delete, f"{model}/")
    return runs


def _delete_records(store: Store, model: str) -> None:
    """Delete all but the lease, the ledger first: without it no run continues."""
    folder = work_folder(RunConfig(model=model, store=store.url))
    shutil.rmtree(folder, ignore_errors=True)
    # Copies that `precis model serve` and `precis runs open` have made.
    delete_adapter_copies(model)
    delete_report_copies(model)
    store.delete(ledger_key(model))
    # Whole folders: each deletion lists its objects, and a run has thousands.
    run = f"{model}/"
    parts = set()
    for key in store.keys(run):
        name, slash, _ = key.removeprefix(run).partition("/")
        parts.add(f"{run}{name}{slash}")
    for part in sorted(parts - {lease_key(model)}):
        store.delete(part)


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
