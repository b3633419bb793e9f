"""What a run shows of itself: Prefect's artifacts, ART's files, the observers."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

import httpx
from prefect import get_client, task
from prefect.artifacts import (
    acreate_markdown_artifact,
    acreate_progress_artifact,
    aupdate_progress_artifact,
)
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import ArtifactUpdate
from prefect.exceptions import PrefectException
from prefect.logging import get_run_logger

from precis.benchmark import curve_of, judged, step_metrics
from precis.judge import Unscored
from precis.report.markdown import training_progress
from precis.report.totals import totals
from precis.rollouts import Rollout, reward
from precis.run import Run
from tasks.policy import RETRIED
from tasks.rollouts import Gathered

_SHOWN_EVERY = 5
"""Steps between two drawings of the progress report: one takes about a fifth of a second."""


def artifact_key(model: str, kind: str) -> str:
    """A key as Prefect wants it: lower case, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", f"{model}-{kind}".lower()).strip("-")


class Board:
    """A run's artifacts in Prefect's UI, updated in place through one client."""

    def __init__(self, client: PrefectClient, progress: UUID, report: UUID) -> None:
        self.client, self.progress, self.report = client, progress, report


@asynccontextmanager
async def shown(run: Run) -> AsyncIterator[Board]:
    """A run's artifacts in Prefect's UI, and its W&B run where one is configured."""
    async with get_client() as client, run.observed():
        yield await open_board(run, client)


@task(name="open board", task_run_name="open board of {run.name}", **RETRIED)
async def open_board(run: Run, client: PrefectClient) -> Board:
    """Create the progress and report artifacts of a run."""
    progress = await acreate_progress_artifact(
        key=artifact_key(run.name, "progress"),
        progress=_percent(run),
        description=_progress_line(run),
    )
    report = await acreate_markdown_artifact(
        key=artifact_key(run.name, "training"),
        markdown="The first report comes with the first step.",
        description=f"Training of {run.name}",
    )
    return Board(client, progress, report)


@task(name="log", task_run_name="step {step}: log {run.name}", cache_policy=NO_CACHE)
async def log_step(run: Run, step: int, gathered: Gathered) -> None:
    """Append the step to ART's files and to W&B; not retried, since it would be there twice."""
    metrics = step_metrics(run.ledger, step)
    await run.model.log(gathered.groups, split="train", metrics=metrics, step=step)
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


@task(name="show", task_run_name="show progress of {run.name}", cache_policy=NO_CACHE)
async def show_step(run: Run, gathered: Gathered, board: Board) -> None:
    """Update the artifacts in Prefect's UI; a server that is out costs nothing but the view."""
    line, done = _progress_line(run), run.ledger.next_step
    get_run_logger().info("%s", line)
    try:
        await aupdate_progress_artifact(board.progress, _percent(run), line, client=board.client)
        if done % _SHOWN_EVERY == 0 or done == run.config.steps:
            markdown = _report(run, gathered)
            await board.client.update_artifact(board.report, ArtifactUpdate(data=markdown))
    except (httpx.HTTPError, PrefectException) as error:
        get_run_logger().warning("The artifacts could not be updated: %s", error)


def _report(run: Run, gathered: Gathered) -> str:
    ranked = sorted(_scored(gathered), key=reward)
    progress = training_progress(
        curve_of(run.ledger),
        best=judged(ranked[-1]) if ranked else None,
        worst=judged(ranked[0]) if ranked else None,
    )
    return f"{progress}\n{totals(run.ledger)}\n"


def _scored(gathered: Gathered) -> list[Rollout]:
    return [
        one for row in gathered.rollouts for one in row if not isinstance(one.verdict, Unscored)
    ]


def _percent(run: Run) -> float:
    return 100 * min(run.ledger.next_step / run.config.steps, 1)


def _progress_line(run: Run) -> str:
    ledger = run.ledger
    parts = [f"step {ledger.next_step} of {run.config.steps}"]
    if ledger.steps:
        parts.append(f"reward {ledger.steps[-1].reward:.2f}")
    if ledger.validations:
        last = ledger.validations[-1]
        parts.append(f"held-out accuracy {last.accuracy:.1%} after step {last.step}")
    return ", ".join(parts)
