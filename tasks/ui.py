"""A run in Prefect's UI: its name, its progress, its report, and the events that it emits."""

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from prefect import get_client
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import ArtifactCreate, ArtifactUpdate
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId
from prefect.events import emit_event
from prefect.logging import get_run_logger
from prefect.runtime import flow_run

from precis.config import BenchmarkConfig, TrainConfig
from precis.report.training_report import TrainingView
from precis.sweep.trials import TRIAL_TAG
from precis.training.progress import follow
from precis.training.run import Run
from tasks.states import NO_SERVER


class RunPage:
    """A flow run's name, and its artifacts: progress and report."""

    def __init__(self, client: PrefectClient, model: str) -> None:
        self._client = client
        self._model = model
        self._run = UUID(flow_run.id)
        self._logger = get_run_logger()
        self._artifacts: dict[str, UUID] = {}

    async def publish(self, view: TrainingView, report: str | None) -> None:
        """Show the run's progress, or its report; without a server only the display is lost."""
        try:
            if report is None:
                done = view.ledger.next_step
                steps = max(view.plan.steps, done)
                name = f"train {self._model}: step {done} of {steps}"
                await self._client.update_flow_run(self._run, name=name)
                share = 100 * done / steps
                await self._put("progress", "progress", share, view.progress)
            else:
                await self._put("training", "markdown", report, f"Training of {self._model}")
        except NO_SERVER as error:
            self._logger.warning("Prefect's UI could not be updated: %s", error)

    async def _put(self, name: str, kind: str, data: object, description: str) -> None:
        """Create this run's artifact, or update it, also after a retry."""
        key = artifact_key(self._model, name)
        if key not in self._artifacts:
            of_run = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[self._run]))
            found = await self._client.read_artifacts(artifact_filter=of_run)
            self._artifacts.update({one.key: one.id for one in found if one.key})
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


@asynccontextmanager
async def watch_run(run: Run) -> AsyncIterator[Callable[[], None]]:
    """Show a run in this flow run while the block lasts; call what is yielded at each change."""
    async with (
        get_client() as client,
        follow(lambda: run.view, RunPage(client, run.name).publish) as tell,
    ):
        yield tell


def artifact_key(model: str, kind: str) -> str:
    """Return a key in Prefect's form: lower case, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", f"{model}-{kind}".lower()).strip("-")


def announce_trained(config: TrainConfig) -> None:
    """Emit an event for a trained model without a benchmark, which an automation then starts.

    The event `precis.train.completed` has the parameters of that benchmark. A sweep's trial emits
    none: the sweep itself compares it with the others.
    """
    if TRIAL_TAG in flow_run.tags:
        return
    benchmark = BenchmarkConfig.of(config).model_copy(update={"checkpoints": "ends"})
    emit("precis.train.completed", config.model, {"benchmark": benchmark.model_dump(mode="json")})


def emit(event: str, model: str, payload: dict[str, Any]) -> None:
    resource = {"prefect.resource.id": f"precis.model.{model}", "prefect.resource.name": model}
    emit_event(event, resource, payload=payload)
