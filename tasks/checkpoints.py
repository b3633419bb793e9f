"""Committing what was trained, and measuring it."""

import asyncio
import time

from prefect import task
from prefect.logging import get_run_logger

from precis.errors import LeaseLost, StoreConflict, StoreError
from precis.records.ledger import StepRecord, Validation
from precis.records.summary import JudgedSummary
from precis.records.trajectories import read_judged
from precis.run.retention import prune
from precis.run.unsent import FILES, keep_record
from precis.sampling.rollouts import gather_greedy, refuse_too_many_unscored
from precis.training.run import Run
from precis.training.steps import validation_of
from tasks.judging import judge_slots
from tasks.policy import RETRIED
from tasks.training import keep_rollouts


@task(name="commit", task_run_name="step {record.step}: commit {run.name}", **RETRIED)
async def commit_step(run: Run, record: StepRecord) -> None:
    """Put checkpoint `record.step + 1` into the store, then the step into the ledger."""
    start = time.perf_counter()
    await run.lease.check()
    where = (run.store.url, run.name, run.identity)
    checkpoint = await run.trainer.commit(
        run.model, record.step + 1, *where, record, run.ledger.run_id, run.lease.id
    )
    record = checkpoint.record or record
    timed = record.model_copy(update={"commit_s": time.perf_counter() - start})
    await run.write_ledger(run.ledger.advance(timed, checkpoint.digest), record.judge)
    run.losses = 0


async def wait_for_commit(run: Run) -> None:
    """Wait for the commit that is under way, if one is.

    Raises:
        StoreError: it failed; where the checkpoint is kept is in the message.
    """
    if run.committing is not None:
        with run.stopwatch.phase("wait"):
            await asyncio.shield(run.committing)
        run.committing = None


async def keep_here(run: Run, record: StepRecord, error: StoreError) -> StoreError:
    """Save what can't be uploaded to this machine; returns the error to stop with.

    The next start of the run uploads it.
    """
    if isinstance(error, StoreConflict):
        return error  # the model is another run's now
    folder = run.kept_folder
    await run.trainer.save(run.model, record.step + 1, folder / FILES)
    keep_record(folder, record)
    return type(error)(
        f"{error} The checkpoint of step {record.step + 1} is kept in {folder} on this machine, "
        "and goes to the store when the run is started again."
    )


@task(name="validate", task_run_name="step {run.ledger.next_step}: validate {run.name}", **RETRIED)
async def validate(run: Run) -> None:
    """Measure the newest adapter on the held-out documents, greedy, and put it in the ledger."""
    validation = await _validation(run, run.ledger.next_step)
    spend = run.unbooked
    await run.write_ledger(run.ledger.add_validation(validation, spend.usd), spend)


async def sweep(run: Run) -> None:
    """Delete the checkpoints that are not to be kept; what fails is tried again next time."""
    accuracies = {one.step: one.accuracy for one in run.ledger.validations}
    policy = run.config.retention
    at = run.ledger.next_step
    try:
        await asyncio.to_thread(prune, run.store, run.name, policy, accuracies, at, run.lease.id)
    except LeaseLost:
        raise
    except StoreError as error:
        get_run_logger().warning("Old checkpoints could not be deleted: %s", error)


async def _validation(run: Run, step: int) -> Validation:
    start = time.perf_counter()
    async with judge_slots(run.config):
        rollouts = await gather_greedy(
            run.model.openai_client(),
            run.model.get_inference_name(step),
            run.judge,
            run.corpus.validation,
            run.config.rollouts,
        )
    refuse_too_many_unscored(rollouts, run.config.rollouts)
    if run.seen.first is None and run.ledger.validations:
        run.seen = run.seen.add_validation(*await _first_validation(run))
    run.seen = run.seen.add_validation(step, rollouts)
    await keep_rollouts(run, "val", step, [[one] for one in rollouts])
    return validation_of(step, rollouts, time.perf_counter() - start)


async def _first_validation(run: Run) -> tuple[int, list[JudgedSummary]]:
    """What another process saw at the run's beginning, for the report to compare with."""
    first = run.ledger.validations[0].step
    documents = run.corpus.validation
    try:
        found = await asyncio.to_thread(read_judged, run.store, run.name, "val", first, documents)
    except StoreError as error:
        get_run_logger().warning("The report compares with no earlier summary: %s", error)
        found = []
    return first, found
