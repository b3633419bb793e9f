"""The flows: one a file, each a table of contents of its steps; and what Prefect, as of 3.9.1, does
with a flow run that ours must not suffer."""

import asyncio
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager
from functools import partial
from typing import Any
from uuid import UUID

from prefect import flow_engine
from prefect._internal import _observation_delivery
from prefect.client.schemas.objects import StateType
from prefect.concurrency._leases import amaintain_concurrency_lease
from prefect.events import emit_event
from prefect.flow_engine import BaseFlowRunEngine
from prefect.runtime import flow_run
from prefect.utilities.services import critical_service_loop

from tasks.states import show_running_as, shown_as

_LOOK_S = 5.0


def _hold_slot(lease: UUID, seconds: float, **_: bool) -> AbstractAsyncContextManager[None]:
    """Hold a run's slot of its deployment's limit, for as long as the server knows of it.

    Prefect cancels a run that has lost its slot: minutes after a pause, which frees it, and after a
    restart of the server, which forgets it. Models are guarded by leases of ours.
    """
    return amaintain_concurrency_lease(lease, seconds, suppress_warnings=True)


@contextmanager
def _stay_shown(engine: BaseFlowRunEngine[Any, Any], join_on_exit: bool = True) -> Iterator[None]:
    """Send a run's heartbeats, and show it as running again that an automation took for dead, or
    that was retried, while this machine slept or had no network."""

    async def look() -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            found = await shown_as(flow_run.id)
            # A suspended run ends after its stage: what resumes it is another process.
            stays = not engine._get_flow_run_suspension_request().is_requested()
            if stays and found in (StateType.CRASHED, StateType.SCHEDULED):
                await show_running_as("Running", "It was silent for minutes, but is alive.")

    try:
        with _send_heartbeats(engine, join_on_exit), ExitStack() as stack:
            if engine.flow.isasync:  # a synchronous one, of others, may have no loop
                stack.callback(asyncio.create_task(look()).cancel)
            yield
    finally:
        # A sign that its silence is no crash. A subflow's run is left as Running, and becomes one.
        is_suspended = engine._get_flow_run_suspension_request().is_requested()
        if is_suspended and engine.flow_run and engine.flow_run.parent_task_run_id is None:
            resource, related = engine._build_heartbeat_event_template()
            emit_event("prefect.flow-run.left-suspended", resource, related=related)


_send_heartbeats = flow_engine._send_heartbeats
flow_engine._send_heartbeats = _stay_shown
flow_engine.amaintain_concurrency_lease = _hold_slot  # type: ignore[assignment, attr-defined]
# After three looks in vain, in half a minute, it would never again see that a run is cancelled.
_observation_delivery.critical_service_loop = partial(  # type: ignore[attr-defined]
    critical_service_loop, consecutive=10_000
)
