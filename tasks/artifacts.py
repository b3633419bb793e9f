"""What a run shows of itself: Prefect's artifacts, ART's files, the observers."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.logging import get_run_logger

from precis.records.metrics import step_metrics
from precis.report.training import TrainingView, progress_line
from precis.run.outlook import RunPlan
from precis.training.run import Run, work_folder
from tasks.board import ProgressReporter, board_of
from tasks.rollouts import Gathered


def artifact_key(model: str, kind: str) -> str:
    """A key as Prefect wants it: lower case, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", f"{model}-{kind}".lower()).strip("-")


@asynccontextmanager
async def report_progress(run: Run) -> AsyncIterator[ProgressReporter]:
    """A run in Prefect's UI, and its W&B run where one is configured."""
    keys = artifact_key(run.name, "progress"), artifact_key(run.name, "training")
    async with run.observed(), board_of(f"train {run.name}", keys, lambda: view_of(run)) as board:
        yield board


@task(name="log", task_run_name="step {step}: log {run.name}", cache_policy=NO_CACHE)
async def log_step(run: Run, step: int, gathered: Gathered | None = None) -> None:
    """Append the step to ART's files and to W&B; not retried, since it would be there twice.

    Without its rollouts, which a process before this one has gathered, its metrics alone.
    """
    metrics = step_metrics(run.ledger, step)
    groups = gathered.groups if gathered else None
    await run.model.log(groups, split="train", metrics=metrics, step=step)
    if run.wandb:
        run.wandb.log(step, metrics)


@task(name="log", task_run_name="log validation of {run.name}", cache_policy=NO_CACHE)
async def log_validation(run: Run) -> None:
    """Append the last validation to ART's files and to W&B."""
    last = run.ledger.validations[-1]
    metrics = {"accuracy": last.accuracy, "words": last.words}
    await run.model.log(split="val", metrics=metrics, step=last.step)
    if run.wandb:
        run.wandb.log(last.step, {f"val/{name}": value for name, value in metrics.items()})


async def show_step(run: Run, gathered: Gathered, board: ProgressReporter) -> None:
    """Say in a line how far the run is, and have the UI brought up to date."""
    rollouts = tuple(one for row in gathered.rollouts for one in row)
    run.seen = replace(run.seen, rollouts=rollouts)
    get_run_logger().info("%s", progress_line(view_of(run)))
    board.update()


def view_of(run: Run) -> TrainingView:
    """The run as it stands."""
    links = {
        "Store": f"{run.store.url}/{run.name}",
        "Logs of the trainer": str(work_folder(run.config)),
        **({"W&B": run.wandb.url} if run.wandb and run.wandb.url else {}),
    }
    return TrainingView(run.ledger, RunPlan.of(run.config, run.ledger), run.seen, links)
