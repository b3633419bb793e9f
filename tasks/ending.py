"""How a run ends: at its budget, by a signal, or after its last step, and never inside a commit."""

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from prefect.logging import get_run_logger

from precis.errors import BudgetReached
from precis.training.run import Run
from tasks.checkpoints import wait_for_commit

COMMIT_GRACE_S = 20.0
"""How long a run that is told to end waits for its commit; Prefect kills it after 30 s."""


@asynccontextmanager
async def finish_commit_on_exit(run: Run) -> AsyncIterator[None]:
    """However the block is left, finish the commit that is under way, or give it up in time.

    SIGTERM (a cancelled run, a machine that shuts down) interrupts what the block is at, and is
    passed on to Prefect once the commit has ended, so that the run ends in the state that it
    would have ended in.
    """
    with _terminating_in_order():
        try:
            yield
            await wait_for_commit(run)
        finally:
            await _finish_commit(run)


async def stop_at_budget(run: Run) -> None:
    """Stop here if the run has spent its budget, or held its machine for as long as it may.

    Raises:
        BudgetReached: what was spent; everything up to here is committed.
    """
    if run.is_over_budget:
        await wait_for_commit(run)
        await _book(run)
        raise BudgetReached(
            f"The run has spent ${run.usd:.2f} of its ${run.config.budget_usd:.2f} and "
            f"stops after step {run.ledger.next_step}, which is committed. Raise budget_usd and "
            "start it again to continue."
        )
    if run.machine.hours >= run.config.cluster.hours_max:
        await wait_for_commit(run)
        raise BudgetReached(
            f"The run has held its machine for {run.machine.hours:.1f} hours "
            f"(cluster.hours_max) and stops after step {run.ledger.next_step}, which is "
            "committed. Start it again to continue."
        )


async def _book(run: Run) -> None:
    """Put into the ledger what no step or validation will: a ceiling was measured, say."""
    spend = run.unbooked
    if spend.usd:
        await run.write_ledger(run.ledger.charge(spend.usd), spend)


async def _finish_commit(run: Run) -> None:
    committing = run.committing
    if committing is None:
        return
    await asyncio.wait({committing}, timeout=COMMIT_GRACE_S)
    if not committing.done():
        committing.cancel()
        get_run_logger().warning(
            "The commit of step %d took longer than %d s and was given up; when the run is "
            "started again it goes on from there.",
            run.next_step,
            COMMIT_GRACE_S,
        )
    elif error := committing.exception():
        get_run_logger().error("The commit of step %d failed: %s", run.next_step, error)


@contextmanager
def _terminating_in_order() -> Iterator[None]:
    """Turn SIGTERM into the cancellation of this task; pass it on when the block is left."""
    if threading.current_thread() is not threading.main_thread():
        yield  # the signal goes elsewhere
        return
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    told = False

    def end() -> None:
        nonlocal told
        told = True
        assert task is not None
        task.cancel()

    before = signal.getsignal(signal.SIGTERM)
    loop.add_signal_handler(signal.SIGTERM, end)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
        signal.signal(signal.SIGTERM, before)
        if told:
            os.kill(os.getpid(), signal.SIGTERM)
