"""The flows: one a file, each a table of contents of its steps; and what Prefect, as of 3.9.1, does
with a flow run that ours must not suffer."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    ExitStack,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from functools import partial
from typing import Any
from uuid import UUID

from prefect import flow_engine, get_client
from prefect._internal import _observation_delivery
from prefect.client.schemas.objects import StateType
from prefect.concurrency._leases import amaintain_concurrency_lease
from prefect.events import emit_event
from prefect.exceptions import Abort
from prefect.flow_engine import BaseFlowRunEngine
from prefect.logging import get_run_logger
from prefect.runtime import flow_run
from prefect.utilities.services import critical_service_loop

from tasks.states import NO_SERVER, show_running_as, shown_as

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


@asynccontextmanager
async def only_process() -> AsyncIterator[None]:
    """Cancel the block, and leave the run's state alone, once another process has the run: it was
    retried on another machine while this one slept, and both would pay for the rest."""
    block = asyncio.current_task()
    assert block is not None

    async def look() -> None:
        begun = 0
        while True:
            with suppress(*NO_SERVER):
                async with get_client() as client:
                    states = await client.read_flow_run_states(UUID(flow_run.id))
                starts = sum(state.is_pending() for state in states)
                begun = begun or starts
                if starts > begun:
                    break
            await asyncio.sleep(_LOOK_S)
        block.cancel()

    looking = asyncio.create_task(look())
    try:
        yield
    except asyncio.CancelledError:
        if not looking.done() or block.uncancel():
            raise
        get_run_logger().warning("The run was retried, and another process has it: this one ends.")
        raise Abort("Another process has the run.") from None
    finally:
        looking.cancel()


_send_heartbeats = flow_engine._send_heartbeats
flow_engine._send_heartbeats = _stay_shown
flow_engine.amaintain_concurrency_lease = _hold_slot  # type: ignore[assignment, attr-defined]
# After three looks in vain, in half a minute, it would never again see that a run is cancelled.
_observation_delivery.critical_service_loop = partial(  # type: ignore[attr-defined]
    critical_service_loop, consecutive=10_000
)
