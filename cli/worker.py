"""A worker that lets its runs end before it stops.

Prefect's own worker, when stopped, kills its flows with SIGKILL: a rented GPU would be left behind,
and the run shown as running for ever. This one drives Prefect's process worker in another order.
Ctrl-C (SIGINT) makes it take no further run and wait for the current ones; a second one cancels
them, as the Cancel button does, so that each cleans up; a third exits at once. SIGTERM, whose
senders do not wait long, cancels right away.
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from uuid import UUID

from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.exceptions import ObjectNotFound
from prefect.runner._state_proposer import StateProposer
from prefect.runner._workspace_hook_runner import WorkspaceHookRunner
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

_CANCELLING = 2
"""The stage of a shutdown that SIGTERM begins."""

Say = Callable[[str], None]


async def run_no_hooks(*_: object) -> None:
    """Take the place of a search for hooks, of which our flows have none.

    Prefect would import the flow for it, and many seconds later write the run's end over a Retry of
    that time.
    """


async def propose_cancelled(
    self: StateProposer, flow_run: FlowRun, state_updates: dict[str, object] | None = None
) -> bool:
    """Show a run whose process has ended as cancelled, unless it has said so itself: by now it may
    be retried."""
    with suppress(ObjectNotFound):
        state = (await self._client.read_flow_run(flow_run.id)).state
        # A process that did not learn in time why it was ended has called itself crashed.
        if state is not None and not (state.is_cancelling() or state.is_crashed()):
            return True  # else Prefect would show it as crashed
    return await _propose_cancelled(self, flow_run, state_updates)


_propose_cancelled = StateProposer.propose_cancelled
StateProposer.propose_cancelled = propose_cancelled  # type: ignore[method-assign]
WorkspaceHookRunner._run = run_no_hooks  # type: ignore[assignment, method-assign]


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
    worker = ProcessWorker(work_pool_name=POOL, limit=limit)
    shift = WorkerShift(worker, say, query_s)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, shift.on_interrupt)
    loop.add_signal_handler(signal.SIGTERM, shift.on_terminate)
    async with worker:
        beat_s = get_current_settings().worker.heartbeat_seconds
        beating = asyncio.create_task(_beat(worker, beat_s))
        try:
            await shift.work()
        finally:
            beating.cancel()


class WorkerShift:
    """What a worker does from stage to stage; a signal that begins a stage breaks off the last."""

    def __init__(self, worker: ProcessWorker, say: Say, query_s: float = _QUERY_S) -> None:
        self._worker = worker
        self._say = say
        self._query_s = query_s
        self._stages = (self._take_runs, self._drain, self._cancel, self._leave)
        self._stage = 0
        self._doing: asyncio.Task[None] | None = None

    async def work(self) -> None:
        """Execute runs until a signal, and then let the current ones end."""
        while self._stage == 0 or self._going():
            self._doing = asyncio.create_task(self._stages[self._stage]())
            await asyncio.wait([self._doing])
            if not self._doing.cancelled():
                return self._doing.result()

    def on_interrupt(self) -> None:
        """Advance by one stage, for Ctrl-C."""
        self._advance(min(self._stage + 1, len(self._stages) - 1))

    def on_terminate(self) -> None:
        """Cancel the current runs, for SIGTERM."""
        self._advance(_CANCELLING)

    def _advance(self, stage: int) -> None:
        # A second SIGTERM, as some supervisors send, must not interrupt what the first began.
        if stage > self._stage:
            self._stage = stage
            if self._doing:
                self._doing.cancel()

    async def _take_runs(self) -> None:
        answered = True
        while True:
            # Safe to cancel: it starts runs only after its last request.
            failure = await _error_of(self._worker.get_and_submit_flow_runs())
            if failure and answered:
                self._say(f"The Prefect server did not answer and will be asked again: {failure}")
            answered = not failure
            await asyncio.sleep(self._query_s)

    async def _drain(self) -> None:
        names = await self._names()
        self._say(f"Waiting for {names}. No other run is taken. Ctrl-C again cancels.")
        await self._ended()

    async def _cancel(self) -> None:
        names = await self._names()
        self._say(f"Cancelling {names}, which may clean up for half a minute. Ctrl-C again kills.")
        with suppress(TimeoutError):
            async with asyncio.timeout(_CANCEL_PATIENCE_S):
                for run in self._going():  # one by one: a run may have been deleted
                    state = State(type=StateType.CANCELLING)
                    failure = await _error_of(self._worker.client.set_flow_run_state(run, state))
                    if failure:
                        self._say(f"The Prefect server did not take that of {run}: {failure}")
                await self._ended()
        await self._leave()

    async def _ended(self) -> None:
        while self._going():  # noqa: ASYNC110  a limiter tells nobody
            await asyncio.sleep(_POLL_S)

    async def _leave(self) -> None:
        if going := self._going():
            self._say(f"Killing {await self._names()}.")
            raise PrecisError(
                f"Left {len(going)} of its runs killed. Retry each in Prefect's UI, or with "
                "`prefect flow-run retry`: it continues from its last commit."
            )

    def _going(self) -> list[UUID]:
        runs = self._worker.limiter.statistics().borrowers
        return [run for run in runs if isinstance(run, UUID)]

    async def _names(self) -> str:
        called = []
        # Without a server it would be two minutes for each.
        deadline = asyncio.get_running_loop().time() + _NAME_S
        for run in self._going():
            try:
                async with asyncio.timeout_at(deadline):
                    called.append((await self._worker.client.read_flow_run(run)).name)
            except Exception:  # as in `_error_of`
                called.append(str(run))
        return ", ".join(called)


async def _beat(worker: ProcessWorker, seconds: float) -> None:
    """Send the server a heartbeat now and then."""
    while True:
        await asyncio.sleep(seconds)
        await _error_of(worker.sync_with_backend())


async def _error_of(call: Awaitable[object]) -> str | None:
    """Await the call, and return the error as text, or None."""
    try:
        await call
    except Exception as error:  # such as a proxy's HTML page; none may end the worker
        return f"{type(error).__name__}: {error}"
    return None
