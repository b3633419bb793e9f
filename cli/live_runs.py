"""The running and waiting runs, as the Prefect server knows them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
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

from cli.server_check import explained
from precis.runs.outlook import in_words
from precis.settings.overrides import merge_config

_AT_WORK = [StateType.RUNNING, StateType.PENDING, StateType.PAUSED, StateType.CANCELLING]
_PAGE = 200


@dataclass(frozen=True)
class LiveRun:
    """A running or waiting run.

    Attributes:
        name: with its step, if it trains; with its model, if it has not begun (Prefect makes up its
            name).
        deployment: as in `prefect deployment run`; `by hand` for a run that a command started.
        state: Prefect's name of it, such as Running, Paused, or Late for a run that waits for a
            worker.
        seconds: in that state; of a run that waits, since its scheduled start or its retry.
    """

    id: str
    name: str
    deployment: str
    state: str
    seconds: float


async def read_live_runs(now: datetime) -> list[LiveRun]:
    """Read the running runs, newest first, then the waiting ones.

    Runs scheduled for later are left out, and so are parts of other runs. Raises PrecisError if the
    server does not list them.
    """
    at_work = FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=_AT_WORK)))
    waiting = FlowRunFilter(
        state=FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.SCHEDULED])),
        expected_start_time=FlowRunFilterExpectedStartTime(before_=now),
    )
    with explained("list its runs"):
        async with get_client() as client:
            found: list[LiveRun] = []
            names = {}
            for wanted in (at_work, waiting):
                described = []
                for run in await read_all(client, flow_run_filter=wanted):
                    if _is_part(run):
                        continue
                    if run.deployment_id not in names:
                        names[run.deployment_id] = await _deployment(client, run)
                    seconds = await _seconds(client, run, now)
                    described.append(_describe(run, names[run.deployment_id], seconds))
                found += sorted(described, key=lambda run: run.seconds)
    return found


def as_lines(runs: Sequence[LiveRun], width: int) -> list[str]:
    """Return two lines for each run, or more on a narrow terminal: names are never cut off."""
    lines = []
    for run in runs:
        lines.append(run.name)
        told = f"{run.state} for {in_words(run.seconds)}; {run.deployment}; {run.id}"
        lines += wrap(
            told,
            max(width, 40),
            initial_indent="  ",
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    return lines


async def read_all(client: PrefectClient, **filters: Any) -> list[FlowRun]:
    """Return all flow runs that match the filters, read page by page."""
    found: list[FlowRun] = []
    while True:
        page = await client.read_flow_runs(**filters, limit=_PAGE, offset=len(found))
        found += page
        if len(page) < _PAGE:
            return found


def _is_part(run: FlowRun) -> bool:
    """Return whether a run is part of another's process, as the benchmark at a training's end
    is."""
    return run.parent_task_run_id is not None and run.deployment_id is None


async def _deployment(client: PrefectClient, run: FlowRun) -> str:
    if run.deployment_id is None:
        return "by hand"
    try:
        deployment = await client.read_deployment(UUID(str(run.deployment_id)))
        flow = await client.read_flow(deployment.flow_id)
    except ObjectNotFound:
        return "a deployment that was deleted"
    return f"{flow.name}/{deployment.name}"


def _describe(run: FlowRun, deployment: str, seconds: float) -> LiveRun:
    state = run.state_name or (run.state_type.value.capitalize() if run.state_type else "")
    model = str(merge_config(run.parameters).get("model") or "")
    name = run.name if model in run.name else f"{run.name} ({model})"
    return LiveRun(str(run.id), name, deployment, state, seconds)


async def _seconds(client: PrefectClient, run: FlowRun, now: datetime) -> float:
    begun: datetime | None = run.expected_start_time
    if run.start_time and run.state:
        begun = run.state.timestamp
        if run.state.is_scheduled():
            # A retry that waits for a slot gets a new state every half minute.
            states = await client.read_flow_run_states(run.id)
            for state in sorted(states, key=lambda state: state.timestamp, reverse=True):
                if not state.is_scheduled():
                    break
                begun = state.timestamp
    return max(0.0, (now - begun).total_seconds()) if begun else 0.0
