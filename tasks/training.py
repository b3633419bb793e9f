"""One step of training."""

from dataclasses import dataclass

from prefect import task

from precis.run import Run
from precis.trainer.protocol import digest_of, encode_groups
from tasks.policy import RETRIED
from tasks.rollouts import Gathered


@dataclass(frozen=True)
class Trained:
    """What a step's training was done on, and what the trainer says of it."""

    digest: str
    metrics: dict[str, float]


@task(name="train", task_run_name="step {step}: train {run.name}", **RETRIED)
async def train_step(run: Run, step: int, gathered: Gathered) -> Trained:
    """Turn adapter `step` into adapter `step + 1`; a repeat gets the stored result."""
    options = run.config.trainer.model_dump()
    with run.stopwatch.phase("train"):
        result = await run.trainer.train(run.model, gathered.groups, step=step, **options)
    return Trained(digest_of(encode_groups(gathered.groups)), result.metrics)
