"""Committing what was trained."""

import asyncio

from prefect import task

from precis.ledger import Validation, write_ledger
from precis.retention import prune
from precis.rollouts import gather_greedy
from precis.run import Run
from precis.steps import step_record, validation_of
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
        seconds=run.stopwatch.lap(),
        judge=gathered.spend,
    )
    advanced = run.ledger.advanced(record)
    await asyncio.to_thread(write_ledger, run.store, advanced)
    run.ledger = advanced


@task(name="validate", task_run_name="step {run.ledger.next_step}: validate {run.name}", **RETRIED)
async def validate(run: Run) -> None:
    """Measure the newest adapter on the held-out documents, greedy, and put it in the ledger.

    Then delete the checkpoints that are not to be kept: which is best is known only now.
    """
    spent = run.spend
    with run.stopwatch.phase("validate"):
        validation = await _validation(run, run.ledger.next_step)
    validated = run.ledger.validated(validation, run.spend.since(spent).usd)
    await run.lease.check()
    await asyncio.to_thread(write_ledger, run.store, validated)
    run.ledger = validated
    await asyncio.to_thread(_prune, run)


def _prune(run: Run) -> None:
    accuracies = {one.step: one.accuracy for one in run.ledger.validations}
    prune(run.store, run.name, run.config.retention, accuracies, run.ledger.next_step)


async def _validation(run: Run, step: int) -> Validation:
    rollouts = await gather_greedy(
        run.model.openai_client(),
        run.model.get_inference_name(step),
        run.judge,
        run.corpus.validation,
        run.config.rollouts,
    )
    return validation_of(step, rollouts)
