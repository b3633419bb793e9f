"""One step of training."""

import asyncio
import time
from collections.abc import Sequence

from prefect import task

from precis.observe.completions import completions_of_step
from precis.observe.samples import SAMPLE_COLUMNS, sample_rows
from precis.records.ledger import StepRecord
from precis.records.trajectories import Split, put_trajectories
from precis.sampling.rollouts import Rollout
from precis.sampling.transcript import transcript
from precis.training.run import Run
from precis.training.steps import as_trained, step_record
from tasks.policy import RETRIED
from tasks.rollouts import Gathered


@task(name="train", task_run_name="step {step}: train {run.name}", **RETRIED)
async def train_step(run: Run, step: int, gathered: Gathered) -> StepRecord:
    """Turn adapter `step` into adapter `step + 1`; a repeat gets the stored result.

    Its rollouts are in the store before that. The trainer keeps the step's record with its result,
    so that a run that dies before the commit need not sample and judge the step again.
    """
    await keep_rollouts(run, "train", step, gathered.rollouts)
    record = step_record(
        step,
        gathered.rollouts,
        groups_trained=len(gathered.groups),
        groups_dropped=gathered.dropped,
        seconds=run.stopwatch.seconds,
        judge=run.unbooked,
        machine_usd=run.machine.unbooked_usd,
    )
    note = record.model_dump(mode="json")
    start = time.perf_counter()
    options = run.config.trainer.options
    result = await run.trainer.train(
        run.model, gathered.groups, step=step, run=run.ledger.run_id, note=note, **options
    )
    return as_trained(record, result.digest, result.metrics, train=time.perf_counter() - start)


async def keep_rollouts(
    run: Run, split: Split, step: int, rollouts: Sequence[Sequence[Rollout]]
) -> None:
    """Put what adapter `step` wrote, and how it was judged, into the store; tell the observers."""
    policy = run.model.get_inference_name(step)
    groups = transcript(rollouts, policy, run.config.rollouts.words_max)
    await asyncio.to_thread(put_trajectories, run.store, run.name, split, step, groups)
    told = completions_of_step(
        rollouts,
        run=run.ledger.run_id,
        policy=policy,
        split=split,
        step=step,
        words_max=run.config.rollouts.words_max,
    )
    run.observers.completions(told)
    if run.wandb and split == "val":
        run.wandb.table(step, "samples", SAMPLE_COLUMNS, sample_rows(rollouts))
