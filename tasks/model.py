"""The model: registered with its trainer, at the last committed checkpoint."""

import asyncio

from prefect import task
from prefect.logging import get_run_logger

from precis.checkpoints import committed_steps
from precis.ledger import read_ledger, write_ledger
from precis.run import Run, mend_art_files
from tasks.policy import RETRIED


@task(name="restore", task_run_name="restore {run.name}", **RETRIED)
async def restore_model(run: Run) -> None:
    """Bring the trainer to where the ledger is, and register the model.

    A new model begins with its untrained start, committed as checkpoint 0.

    Raises:
        ConfigError: the model was trained with other settings.
        CorruptCheckpoint: the checkpoint that the ledger names is damaged.
    """
    run.ledger = await asyncio.to_thread(read_ledger, run.store, run.name, run.identity)
    is_new = not await asyncio.to_thread(committed_steps, run.store, run.name)
    if run.ledger.next_step or not is_new:
        await run.trainer.restore(run.model, run.ledger.next_step, run.store.url, run.name)
        get_run_logger().info("Continues from the checkpoint of step %d.", run.ledger.next_step)
    mend_art_files(run.config)
    await run.model.register(run.trainer)
    if is_new:
        await run.trainer.commit(run.model, 0, run.store.url, run.name, run.identity)
        await asyncio.to_thread(write_ledger, run.store, run.ledger)
