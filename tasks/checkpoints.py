"""Committing what was trained: the checkpoint, the ledger, and then the log."""

import asyncio
import time

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.logging import get_run_logger

from precis.errors import LeaseLost, StoreConflict, StoreError
from precis.processes.kill_points import reached
from precis.records.ledger import StepRecord, Validation
from precis.run.retention import prune
from precis.run.unsent import FILES, keep_record
from precis.training.batch import TrainingBatch
from precis.training.run import Run
from tasks.policy import RETRIED


@task(name="commit", task_run_name="step {record.step}: commit {run.name}", **RETRIED)
async def commit_step(run: Run, record: StepRecord) -> None:
    """Put checkpoint `record.step + 1` into the store, then the step into the ledger."""
    start = time.perf_counter()
    await run.lease.check()
    reached("lease renewed", record.step)
    client = run.trainer.client
    checkpoint = await client.commit(run.model, record.step + 1, run.stored_model, record)
    # Where an earlier try has committed it, the record is the one in its manifest.
    record = checkpoint.record or record
    timed = record.model_copy(update={"commit_s": time.perf_counter() - start})
    # The ledger moves only now that the manifest is there: who resumes trusts the ledger.
    await run.write_ledger(run.ledger.advance(timed, checkpoint.digest))
    run.trainer.count_progress()


async def keep_here(run: Run, record: StepRecord, error: StoreError) -> StoreError:
    """Save what can't be uploaded to this machine; returns the error to stop with.

    The next start of the run uploads it.
    """
    if isinstance(error, StoreConflict):
        return error  # the model is another run's now
    folder = run.kept_folder
    await run.trainer.client.save(run.model, record.step + 1, folder / FILES)
    keep_record(folder, record)
    return type(error)(
        f"{error} The checkpoint of step {record.step + 1} is kept in {folder} on this machine, "
        "and goes to the store when the run is started again."
    )


@task(name="log", task_run_name="step {step}: log {run.name}", cache_policy=NO_CACHE)
async def log_step(run: Run, step: int, batch: TrainingBatch | None = None) -> None:
    """Append the step to ART's files and to W&B; not retried, since it would be there twice.

    Without its batch, which a process before this one has sampled, its metrics alone.
    """
    await run.log.log_step(run.ledger, step, batch.groups if batch else None)


@task(name="log", task_run_name="log validation of {run.name}", cache_policy=NO_CACHE)
async def log_validation(run: Run, validation: Validation) -> None:
    """Append a validation to ART's files and to W&B."""
    await run.log.log_validation(validation)


async def delete_old_checkpoints(run: Run) -> None:
    """Delete the checkpoints that are not to be kept; what fails is tried again next time."""
    scores = {one.step: one.score.value for one in run.ledger.validations}
    try:
        await asyncio.to_thread(
            prune,
            run.store,
            run.name,
            run.config.retention,
            scores,
            run.ledger.next_step,
            run.lease.id,
            run.ledger.rebuilt_at,
        )
    except LeaseLost:
        raise
    except StoreError as error:
        get_run_logger().warning("Old checkpoints could not be deleted: %s", error)
