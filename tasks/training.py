"""One step of training."""

import time

from prefect import task

from precis.processes.kill_points import reached
from precis.records.ledger import StepRecord
from precis.training.batch import TrainingBatch
from precis.training.run import Run
from precis.training.steps import as_trained, step_record
from tasks.policy import RETRIED
from tasks.rollouts import keep_rollouts


@task(name="train", task_run_name="step {step}: train {run.name}", **RETRIED)
async def train_step(run: Run, step: int, batch: TrainingBatch) -> StepRecord:
    """Turn adapter `step` into adapter `step + 1`; a repeat gets the stored result.

    Its rollouts are in the store before that. The trainer keeps the step's record with its result,
    so that a run that dies before the commit need not sample and judge the step again.
    """
    rows = batch.rollouts.rows
    # Before the training: once a step is trained, it is not sampled again.
    await keep_rollouts(run, "train", step, rows)
    record = step_record(
        step,
        rows,
        groups_trained=len(batch.groups),
        groups_dropped=batch.dropped,
        groups_added=len(rows) - run.config.rollouts.groups_per_step,
        seconds=run.stopwatch.seconds,
        judge=run.unbooked,
        machine_usd=run.trainer.meter.unbooked_usd,
    )
    reached("before training", step)
    start = time.perf_counter()
    result = await run.trainer.client.train(
        run.model,
        batch.groups,
        step=step,
        run=run.ledger.run_id,
        note=record.model_dump(mode="json"),
        **run.config.trainer.options,
    )
    seconds = time.perf_counter() - start
    reached("step trained", step)
    return as_trained(record, result.digest, result.metrics, train=seconds)
