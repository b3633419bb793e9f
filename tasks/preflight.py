"""What can be found out before any work is done."""

import asyncio

from prefect import task

from precis.errors import StoreError
from precis.run import Run
from precis.store import Store
from tasks.policy import RETRIED


@task(name="preflight", task_run_name="preflight of {run.name}", **RETRIED)
async def preflight(run: Run) -> None:
    """Check that the judge answers and that the store takes what it is given.

    Raises:
        JudgeError: the key or the model is wrong.
        StoreError: the store can't be written.
    """
    await run.judge.check()
    await asyncio.to_thread(_check_writable, run.store)


def _check_writable(store: Store) -> None:
    store.put(".preflight", b"written by preflight")
    if store.get(".preflight") is None:
        raise StoreError(f"The store {store.url} lost what was written to it a moment ago.")
    store.delete(".preflight")
