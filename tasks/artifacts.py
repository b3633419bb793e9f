"""What a run shows of itself: Prefect's artifacts, ART's files, the observers."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

from prefect import get_client, task
from prefect.artifacts import (
    acreate_markdown_artifact,
    acreate_progress_artifact,
    aupdate_progress_artifact,
)
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import ArtifactUpdate
from prefect.logging import get_run_logger

from precis.benchmark import curve_of, judged, step_metrics
from precis.judge import Scored
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
    async with get_client() as client:
        board = await open_board(run, client)
        with run.observed():
            yield board


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


@task(name="log", task_run_name="step {step}: log {run.name}", **RETRIED)
async def log_step(run: Run, step: int, gathered: Gathered, board: Board) -> None:
    """Tell everyone who watches what the step brought."""
    metrics = step_metrics(run.ledger, step)
    await run.model.log(gathered.groups, split="train", metrics=metrics, step=step)
    if run.wandb:
        run.wandb.log(step, metrics)
    get_run_logger().info("%s", _progress_line(run))
    await aupdate_progress_artifact(
        board.progress, _percent(run), _progress_line(run), client=board.client
    )
    if (step + 1) % _SHOWN_EVERY == 0 or step + 1 == run.config.steps:
        await _update_report(run, gathered, board)


async def _update_report(run: Run, gathered: Gathered, board: Board) -> None:
    ranked = sorted(_scored(gathered), key=reward)
    markdown = training_progress(
        curve_of(run.ledger),
        best=judged(ranked[-1]) if ranked else None,
        worst=judged(ranked[0]) if ranked else None,
    )
    whole = f"{markdown}\n{totals(run.ledger)}\n"
    await board.client.update_artifact(board.report, ArtifactUpdate(data=whole))


def _scored(gathered: Gathered) -> list[Rollout]:
    return [one for row in gathered.rollouts for one in row if isinstance(one.verdict, Scored)]


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
