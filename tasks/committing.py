"""The commit of a step, beside the gathering of the next."""

import asyncio

from precis.errors import StoreError
from precis.records.ledger import StepRecord
from precis.training.run import Run
from tasks.artifacts import log_step, show_step
from tasks.board import ProgressReporter
from tasks.checkpoints import commit_step, keep_here
from tasks.rollouts import Gathered


def commit_beside(
    run: Run, record: StepRecord, gathered: Gathered, board: ProgressReporter
) -> None:
    """Begin to commit a step that is trained; `settle` waits for the end.

    The trainer, which has the files, uploads them; the flow only waits for the manifest.
    """
    run.stopwatch.reset()
    run.next_step = record.step + 1
    run.committing = asyncio.create_task(_commit(run, record, gathered, board))


async def _commit(
    run: Run, record: StepRecord, gathered: Gathered, board: ProgressReporter
) -> None:
    try:
        await commit_step(run, record)
    except StoreError as error:
        raise await keep_here(run, record, error) from error
    run.machine.book(record.machine_usd)
    await log_step(run, record.step, gathered)
    await show_step(run, gathered, board)
