"""The model: registered with its trainer, at the last committed checkpoint."""

import asyncio

from prefect import task
from prefect.logging import get_run_logger

from precis.checkpoints import committed_steps, newest_whole
from precis.errors import ConfigError, CorruptCheckpoint
from precis.ledger import read_ledger, write_ledger
from precis.run import Run, mend_art_files
from tasks.policy import RETRIED


@task(name="restore", task_run_name="restore {run.name}", **RETRIED)
async def restore_model(run: Run) -> None:
    """Bring the trainer to where the ledger is, and register the model.

    A new model begins with its ledger, then its untrained start as checkpoint 0. Where the
    ledger's checkpoint is damaged, the run goes back to the newest whole one before it.

    Raises:
        ConfigError: the model was trained with other settings.
        CorruptCheckpoint: the store holds checkpoints of the model, and none is whole.
    """
    corpus = run.corpus.digest
    run.ledger = await asyncio.to_thread(read_ledger, run.store, run.name, run.identity, corpus)
    await asyncio.to_thread(write_ledger, run.store, run.ledger)
    has_begun = bool(await asyncio.to_thread(committed_steps, run.store, run.name))
    if has_begun or run.ledger.next_step:
        await _restore_newest(run)
    mend_art_files(run.config)
    await run.model.register(run.trainer)
    if not has_begun:
        await run.trainer.commit(run.model, 0, run.store.url, run.name, run.identity)
    await asyncio.to_thread(run.store.clean)


async def _restore_newest(run: Run) -> None:
    logger, wanted = get_run_logger(), run.ledger.next_step
    whole = await asyncio.to_thread(newest_whole, run.store, run.name, wanted, logger.warning)
    if whole is None:
        raise CorruptCheckpoint(
            f"{run.store.url} holds no whole checkpoint of {run.name!r} up to step {wanted}. "
            "Bring one back from a backup, or train under another model name."
        )
    if whole.config != run.identity:
        raise ConfigError(
            f"The checkpoints of {run.name!r} in {run.store.url} are of a run with other settings "
            "whose ledger is gone. Train under another model name, or delete them."
        )
    try:
        await run.trainer.restore(run.model, whole.step, run.store.url, run.name)
    except CorruptCheckpoint as error:
        if whole.step == 0:
            raise
        logger.warning("%s The checkpoint before it is used.", error)
        run.ledger = run.ledger.rewound(whole.step - 1)
        return await _restore_newest(run)
    run.ledger = run.ledger.rewound(whole.step)
    logger.info("Continues from the checkpoint of step %d.", whole.step)
