"""A worker that lets its runs end before it stops.

Prefect's own worker, when stopped, kills its flows with SIGKILL: a rented GPU would be left behind,
and the run shown as running for ever. This one drives Prefect's process worker in another order.
Ctrl-C (SIGINT) makes it take no further run and wait for the current ones; a second one cancels
them, as the Cancel button does, so that each cleans up; a third exits at once. SIGTERM, whose
senders do not wait long, cancels right away.
"""

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from enum import IntEnum
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.objects import State, StateType
from prefect.settings import get_current_settings
from prefect.workers.process import ProcessWorker

import flows  # noqa: F401  keeps Prefect looking for Cancel after an outage of its server
from precis.errors import PrecisError

POOL = "precis"
_POLL_S = 0.3
_QUERY_S = 1.0
"""Between two looks for runs."""
_NAME_S = 5.0
_CANCEL_PATIENCE_S = 90.0
"""Longer than Prefect's: it kills a run's process 30 seconds after the run is cancelled."""

Say = Callable[[str], None]
T = TypeVar("T")


class ShutdownStage(IntEnum):
    """The stage of a worker's shutdown."""

    WORKING = 0
    DRAINING = 1
    CANCELLING = 2
    LEAVING = 3


class WorkerShutdown:
    """The shutdown of a worker, advanced by signals."""

    def __init__(self) -> None:
        self.stage = ShutdownStage.WORKING
        self._changed = asyncio.Event()

    def on_interrupt(self) -> None:
        """Advance by one stage, for Ctrl-C."""
        self._to(ShutdownStage(min(self.stage + 1, ShutdownStage.LEAVING)))

    def on_terminate(self) -> None:
        """Cancel the current runs, for SIGTERM."""
        self._to(max(self.stage, ShutdownStage.CANCELLING))

    async def pause(self, seconds: float) -> None:
        """Wait for some seconds, or until the next signal."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), seconds)
            self._changed.clear()

    async def result_before_signal(self, call: Coroutine[Any, Any, T]) -> T | None:
        """Return the call's result, or None if a signal came first and cancelled it.

        Without a server Prefect's client retries for two minutes.
        """
        called = asyncio.create_task(call)
        told = asyncio.create_task(self._changed.wait())
        try:
            await asyncio.wait([called, told], return_when=asyncio.FIRST_COMPLETED)
        finally:
            told.cancel()
            called.cancel()
        await asyncio.wait([called])
        return None if called.cancelled() else called.result()

    def acknowledge(self) -> ShutdownStage:
        """Return the stage; what is called from now on waits for a later signal."""
        self._changed.clear()
        return self.stage

    def listen(self) -> None:
        """Handle the signals until the event loop is closed."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self.on_interrupt)
        loop.add_signal_handler(signal.SIGTERM, self.on_terminate)

    def _to(self, stage: ShutdownStage) -> None:
        # A second SIGTERM, as some supervisors send, must not interrupt what the first began.
        if stage > self.stage:
            self.stage = stage
            self._changed.set()


async def work(limit: int, say: Say, query_s: float = _QUERY_S) -> None:
    """Execute the work pool's scheduled runs until a signal; create the pool if need be.

    A server that does not answer costs only time. `say` prints a sentence for the user. Raises
    PrecisError if runs were killed.
    """
    try:
        await _work(limit, say, query_s)
    except ExceptionGroup as group:  # Prefect's worker wraps what ends it, once or twice
        first: Exception = group
        while isinstance(first, ExceptionGroup):
            first = first.exceptions[0]
        raise first from None


async def _work(limit: int, say: Say, query_s: float) -> None:
    shift = WorkerShutdown()
    shift.listen()
    async with ProcessWorker(work_pool_name=POOL, limit=limit) as worker:
        beat_s = get_current_settings().worker.heartbeat_seconds
        beating = asyncio.create_task(_beat(worker, beat_s))
        try:
            answered = True
            while shift.stage == ShutdownStage.WORKING:
                # Safe to cancel: it starts runs only after its last request.
                looking = _error_of(worker.get_and_submit_flow_runs)
                failure = await shift.result_before_signal(looking)
                if failure and answered:
                    say(f"The Prefect server did not answer and will be asked again: {failure}")
                answered = not failure
                await shift.pause(query_s)
            await _finish(worker, shift, say)
        finally:
            beating.cancel()


async def _finish(worker: ProcessWorker, shift: WorkerShutdown, say: Say) -> None:
    """Wait for the current runs; cancel them if a signal asks for that."""
    told = ShutdownStage.WORKING
    deadline = float("inf")
    while going := _going(worker):
        if told == ShutdownStage.LEAVING or time.monotonic() > deadline:
            raise PrecisError(
                f"Left {len(going)} of its runs killed. Retry each in Prefect's UI, or with "
                "`prefect flow-run retry`: it continues from its last commit."
            )
        if shift.stage > told:
            told = shift.acknowledge()
            say(await _farewell(worker.client, going, told))
            if told == ShutdownStage.CANCELLING:
                deadline = time.monotonic() + _CANCEL_PATIENCE_S
                for run in going:  # one by one: a run may have been deleted
                    cancelling = State(type=StateType.CANCELLING)
                    set_state = partial(worker.client.set_flow_run_state, run, cancelling)
                    failure = await shift.result_before_signal(_error_of(set_state))
                    if failure:
                        say(f"The Prefect server did not take that of {run}: {failure}")
        await shift.pause(_POLL_S)


async def _farewell(client: PrefectClient, going: Sequence[UUID], stage: ShutdownStage) -> str:
    called = []
    # Without a server it would be two minutes for each.
    deadline = asyncio.get_running_loop().time() + _NAME_S
    for run in going:
        try:
            async with asyncio.timeout_at(deadline):
                called.append((await client.read_flow_run(run)).name)
        except Exception:  # as in `_error_of`
            called.append(str(run))
    names = ", ".join(called)
    return {
        ShutdownStage.DRAINING: f"Waiting for {names}. No other run is taken. "
        "Ctrl-C again cancels.",
        ShutdownStage.CANCELLING: f"Cancelling {names}, which may clean up for half a minute. "
        "Ctrl-C again kills.",
        ShutdownStage.LEAVING: f"Killing {names}.",
    }[stage]


def _going(worker: ProcessWorker) -> list[UUID]:
    return [run for run in worker.limiter.statistics().borrowers if isinstance(run, UUID)]


async def _beat(worker: ProcessWorker, seconds: float) -> None:
    """Send the server a heartbeat now and then."""
    while True:
        await asyncio.sleep(seconds)
        await _error_of(worker.sync_with_backend)


async def _error_of(call: Callable[[], Awaitable[object]]) -> str | None:
    """Call, and return the error as text, or None."""
    try:
        await call()
    except Exception as error:  # such as a proxy's HTML page; none may end the worker
        return f"{type(error).__name__}: {error}"
    return None
