"""One step of training."""

import time

from prefect import task

from precis.environments.trajectories import group_of
from precis.processes.kill_points import reached
from precis.records.ledger import StepRecord
from precis.trainer.backend import SERVICE_USD
from precis.training.batch import TrainingBatch
from precis.training.run import Run
from precis.training.steps import as_trained, step_record
from tasks.policy import RETRIED
from tasks.rollouts import keep_rollouts


def describe_step(run: Run, step: int, batch: TrainingBatch) -> StepRecord:
    """The record of a step that is about to be trained; it books what is spent up to here."""
    run.described = step_record(
        step,
        batch,
        groups_added=len(batch.rollouts.rows) - run.config.rollouts.groups_per_step,
        seconds=run.stopwatch.seconds,
        judge=run.unbooked,
        machine_usd=run.trainer.meter.unbooked_usd,
        machine_saved_usd=run.trainer.meter.unbooked_saved_usd,
    )
    return run.described


@task(name="train", task_run_name="step {record.step}: train {run.name}", **RETRIED)
async def train_step(run: Run, record: StepRecord, batch: TrainingBatch) -> StepRecord:
    """Turn adapter `record.step` into the next; a repeat gets the stored result.

    Its rollouts are in the store before that. The trainer keeps the step's record with its result,
    so that a run that dies before the commit need not sample and judge the step again.
    """
    step = record.step
    rollouts = batch.rollouts
    # Before the training: once a step is trained, it is not sampled again.
    await keep_rollouts(run, "train", step, rollouts.rows, rollouts.adapter)
    reached("before training", step)
    start = time.perf_counter()
    result = await run.trainer.client.train(
        run.model,
        list(map(group_of, batch.groups)),
        step=step,
        run=run.ledger.run_id,
        note=record.model_dump(mode="json"),
        **run.config.trainer.options,
    )
    seconds = time.perf_counter() - start
    reached("step trained", step)
    run.service_usd = result.metrics.get(SERVICE_USD, 0.0)
    return as_trained(record, result.digest, result.metrics, train=seconds)
