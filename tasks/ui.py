"""A run in Prefect's UI: its name, its progress, its report, and the events that it emits.

A report takes a quarter of a second to draw, and one of a thousand steps more. It is drawn beside
the run, in a thread, at most every few seconds and for a hundredth of the time, and always at the
end.
"""

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from uuid import UUID

import httpx
from prefect import get_client
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import ArtifactCreate, ArtifactUpdate
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    ArtifactFilterKey,
)
from prefect.events import emit_event
from prefect.exceptions import PrefectException
from prefect.logging import get_run_logger
from prefect.runtime import flow_run

from precis.config import BenchmarkConfig, TrainConfig
from precis.llm.silence import silences
from precis.report.training_report import TrainingView, training_report
from precis.training.run import Run

TRIAL_TAG = "sweep-trial"
"""The tag of a run of training that a sweep has started."""
_PAUSE_S = 1.0
_LOOK_S = 2.0
"""Between two looks whether a server has fallen silent."""
_REPORT_PAUSE_S = 5.0
# The next report waits so many times as long as the last one took: drawing a long run's report
# then takes a hundredth of its time at most.
_REPORT_SHARE = 100
# A server that is out must not hold up the end of a run for longer.
_LAST_WORD_S = 10.0


class ProgressReporter:
    """Follows a run: `update` says that there is news, and returns at once.

    Args:
        model: the run's.
        view: the run as it stands.
    """

    def __init__(self, client: PrefectClient, model: str, view: Callable[[], TrainingView]) -> None:
        self._client = client
        self._name = f"train {model}"
        self._progress_key = artifact_key(model, "progress")
        self._report_key = artifact_key(model, "training")
        self._view = view
        self._run = UUID(flow_run.id)
        self._logger = get_run_logger()
        self._artifacts: dict[str, UUID] = {}
        self._news = asyncio.Event()
        self._closing = asyncio.Event()
        self._silent = False
        self._report_due = time.monotonic() + _REPORT_PAUSE_S

    def update(self) -> None:
        """There is news to show, soon."""
        self._news.set()

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Keep the UI up to date while the block lasts; it ends with all that there is to show."""
        follower = asyncio.create_task(self._follow())
        self.update()
        try:
            yield
        finally:
            self._closing.set()
            self.update()
            await self._end(follower)

    async def _end(self, follower: asyncio.Task[None]) -> None:
        done, late = await asyncio.wait([follower], timeout=_LAST_WORD_S)
        for task in late:
            task.cancel()
        for error in filter(None, [task.exception() for task in done]):
            self._logger.error("The run's report could not be made.", exc_info=error)

    async def _follow(self) -> None:
        while True:
            await self._wait_for_news()
            self._news.clear()
            is_last = self._closing.is_set()
            await self._show(is_last)
            if is_last:
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), _PAUSE_S)

    async def _wait_for_news(self) -> None:
        """Wait until somebody has news, or a server falls silent, still is, or answers again."""
        while not self._news.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), _LOOK_S)
            if silences() or self._silent:
                return

    async def _show(self, is_last: bool) -> None:
        """A server that is out costs nothing but the view."""
        view = self._view()
        self._silent = bool(view.silences)
        try:
            await self._show_progress(view)
            if is_last or time.monotonic() >= self._report_due:
                await self._show_report(view)
        except (httpx.HTTPError, PrefectException) as error:
            self._logger.warning("Prefect's UI could not be brought up to date: %s", error)

    async def _show_progress(self, view: TrainingView) -> None:
        done = view.ledger.next_step
        steps = max(view.plan.steps, done)
        name = f"{self._name}: step {done} of {steps}"
        await self._client.update_flow_run(self._run, name=name)
        await self._put(self._progress_key, "progress", 100 * done / steps, view.progress)

    async def _show_report(self, view: TrainingView) -> None:
        start = time.monotonic()
        report = await asyncio.to_thread(training_report, view)
        now = time.monotonic()
        self._report_due = now + max(_REPORT_PAUSE_S, _REPORT_SHARE * (now - start))
        await self._put(self._report_key, "markdown", report, f"Training of {view.ledger.model}")

    async def _put(self, key: str, kind: str, data: object, description: str) -> None:
        """Create this run's artifact, or change it in place, also one from before a retry."""
        if key not in self._artifacts:
            self._artifacts.update(await self._find_artifacts())
        if key in self._artifacts:
            change = ArtifactUpdate(data=data, description=description)
            # The client's own method also emits an event with all the data in it, each time.
            await self._client.request(
                "PATCH",
                "/artifacts/{id}",
                path_params={"id": self._artifacts[key]},
                json=change.model_dump(mode="json", exclude_unset=True),
            )
        else:
            new = ArtifactCreate(
                key=key, type=kind, data=data, description=description, flow_run_id=self._run
            )
            self._artifacts[key] = (await self._client.create_artifact(new)).id

    async def _find_artifacts(self) -> dict[str, UUID]:
        wanted = ArtifactFilter(
            key=ArtifactFilterKey(any_=[self._progress_key, self._report_key]),
            flow_run_id=ArtifactFilterFlowRunId(any_=[self._run]),
        )
        found = await self._client.read_artifacts(artifact_filter=wanted)
        return {one.key: one.id for one in found if one.key}


@asynccontextmanager
async def watch_run(run: Run) -> AsyncIterator[Callable[[], None]]:
    """Show a run in this flow run while the block lasts; call what it gives when there is news."""
    async with get_client() as client:
        reporter = ProgressReporter(client, run.name, lambda: run.view)
        async with reporter.following():
            yield reporter.update


def artifact_key(model: str, kind: str) -> str:
    """A key as Prefect wants it: lower case, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", f"{model}-{kind}".lower()).strip("-")


def announce_trained(config: TrainConfig) -> None:
    """Say that a model is trained, and has not been benchmarked; an automation does that then.

    The event `precis.train.completed` carries the parameters of the benchmark that it lacks. A
    sweep's trial is not announced: the sweep itself compares it with the others.
    """
    if TRIAL_TAG in flow_run.tags:
        return
    benchmark = BenchmarkConfig.of(config).model_copy(update={"checkpoints": "ends"})
    emit_event(
        event="precis.train.completed",
        resource={
            "prefect.resource.id": f"precis.model.{config.model}",
            "prefect.resource.name": config.model,
        },
        payload={"benchmark": benchmark.model_dump(mode="json")},
    )
