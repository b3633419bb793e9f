"""The runs that are at work or wait for their turn, as the Prefect server knows them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from textwrap import wrap
from typing import Any
from uuid import UUID

from prefect import get_client
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterExpectedStartTime,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.exceptions import ObjectNotFound

from precis.run.outlook import in_words

_AT_WORK = [StateType.RUNNING, StateType.PENDING, StateType.PAUSED, StateType.CANCELLING]
_PAGE = 200
_BY_HAND = "by hand"
"""The stand-in for the deployment of a run that a command has started, as `make rehearse` does."""


@dataclass(frozen=True)
class LiveRun:
    """A run at work, or one that waits.

    Attributes:
        name: with the step that it has come to, where it trains; of one that has not begun, which
            Prefect calls as it likes, with its model.
        deployment: as `prefect deployment run` takes it; `by hand` for a run of none.
        state: Prefect's word, such as Running, Paused, or Late for one that waits for a worker.
        seconds: since it began, or was to begin.
    """

    id: str
    name: str
    deployment: str
    state: str
    seconds: float


async def read_live_runs(now: datetime) -> list[LiveRun]:
    """Read the runs at work, the one that began last first, then those that wait.

    Runs that a schedule has planned for later are none of them, nor are parts of other runs.
    """
    at_work = FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=_AT_WORK)))
    waiting = FlowRunFilter(
        state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.SCHEDULED])),
        expected_start_time=FlowRunFilterExpectedStartTime(before_=now),
    )
    async with get_client() as client:
        found: list[FlowRun] = []
        for wanted in (at_work, waiting):
            runs = await read_all(client, flow_run_filter=wanted)
            whole = [run for run in runs if not _is_part(run)]
            found += sorted(whole, key=lambda run: _seconds(run, now))
        names = {}
        for run in found:
            if run.deployment_id not in names:
                names[run.deployment_id] = await _deployment(client, run)
    return [_describe(run, names[run.deployment_id], now) for run in found]


def as_lines(runs: Sequence[LiveRun], width: int) -> list[str]:
    """Each run in two lines, or more where the terminal is narrow: names are never cut off."""
    lines = []
    for run in runs:
        lines.append(run.name)
        told = f"{run.state} for {in_words(run.seconds)}; {run.deployment}; {run.id}"
        indent = "  "
        lines += wrap(
            told,
            max(width, 40),
            initial_indent=indent,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
    return lines


async def read_all(client: PrefectClient, **filters: Any) -> list[FlowRun]:
    """Return all flow runs that the filters let through, page by page."""
    found: list[FlowRun] = []
    while True:
        page = await client.read_flow_runs(**filters, limit=_PAGE, offset=len(found))
        found += page
        if len(page) < _PAGE:
            return found


def _is_part(run: FlowRun) -> bool:
    """Return whether a run is within another's process, as the benchmark at a training's end."""
    return run.parent_task_run_id is not None and run.deployment_id is None


async def _deployment(client: PrefectClient, run: FlowRun) -> str:
    if run.deployment_id is None:
        return _BY_HAND
    try:
        deployment = await client.read_deployment(UUID(str(run.deployment_id)))
        flow = await client.read_flow(deployment.flow_id)
    except ObjectNotFound:
        return "a deployment that was deleted"
    return f"{flow.name}/{deployment.name}"


def _describe(run: FlowRun, deployment: str, now: datetime) -> LiveRun:
    state = run.state_name or (run.state_type.value.capitalize() if run.state_type else "")
    given = {**run.parameters, **dict(run.parameters.get("config") or {})}
    model = str(given.get("model") or "")
    name = run.name if model in run.name else f"{run.name} ({model})"
    return LiveRun(str(run.id), name, deployment, state, _seconds(run, now))


def _seconds(run: FlowRun, now: datetime) -> float:
    begun = run.start_time or run.expected_start_time
    return max(0.0, (now - begun.astimezone(UTC)).total_seconds()) if begun else 0.0
