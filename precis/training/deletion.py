"""Deleting a run: its records in the store, and its files on this machine."""

import asyncio
import shutil
from collections.abc import Callable, Coroutine
from typing import Any

from precis.config import RunConfig
from precis.models.serving import delete_adapter_copies
from precis.records.ledger import ledger_key
from precis.run.lease import lease_key, leased, read_lease
from precis.run.overview import sizes_of_run
from precis.run.reports import delete_report_copies
from precis.store import Store
from precis.training.run import work_folder


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
