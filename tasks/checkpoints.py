"""Committing what was trained, and measuring it."""

import asyncio
import time

from prefect import task
from prefect.logging import get_run_logger

from precis.errors import StoreError
from precis.ledger import Ledger, Validation, write_ledger
from precis.retention import prune
from precis.rollouts import gather_greedy, refuse_too_many_unscored
from precis.run import Run
from precis.steps import step_record, validation_of
from tasks.judging import judge_slots
from tasks.policy import RETRIED
from tasks.rollouts import Gathered
from tasks.training import Trained


@task(name="commit", task_run_name="step {step}: commit {run.name}", **RETRIED)
async def commit_step(run: Run, step: int, gathered: Gathered, trained: Trained) -> None:
    """Put checkpoint `step + 1` into the store, then the step into the ledger."""
    with run.stopwatch.phase("commit"):
        await run.lease.check()
        await run.trainer.commit(run.model, step + 1, run.store.url, run.name, run.identity)
    record = step_record(
        step,
        gathered.rollouts,
        digest=trained.digest,
        groups_trained=len(gathered.groups),
        groups_dropped=gathered.dropped,
        trainer=trained.metrics,
        seconds=run.stopwatch.seconds,
        judge=run.unbooked,
    )
    await _write(run, run.ledger.advanced(record))
    run.stopwatch.reset()


@task(name="validate", task_run_name="step {run.ledger.next_step}: validate {run.name}", **RETRIED)
async def validate(run: Run) -> None:
    """Measure the newest adapter on the held-out documents, greedy, and put it in the ledger."""
    validation = await _validation(run, run.ledger.next_step)
    await _write(run, run.ledger.validated(validation, run.unbooked.usd))


async def sweep(run: Run) -> None:
    """Delete the checkpoints that are not to be kept; what fails is tried again next time."""
    accuracies = {one.step: one.accuracy for one in run.ledger.validations}
    policy, at = run.config.retention, run.ledger.next_step
    try:
        await asyncio.to_thread(prune, run.store, run.name, policy, accuracies, at)
    except StoreError as error:
        get_run_logger().warning("Old checkpoints could not be deleted: %s", error)


async def _write(run: Run, ledger: Ledger) -> None:
    """Commit a ledger that says all that was spent."""
    spend = run.unbooked
    await run.lease.check()  # an upload may have taken longer than the lease
    await asyncio.to_thread(write_ledger, run.store, ledger)
    run.book(ledger, spend)


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
    return validation_of(step, rollouts, time.perf_counter() - start)
