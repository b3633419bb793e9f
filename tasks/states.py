"""A run's end in Prefect: the reason as the state's name, the next step as its message; and the log
lines of `precis/`, which knows no Prefect, in the run's log.

The state keeps its type, so that Retry works and `state_type` filters. A state with its own name
emits an event of that name (`prefect.flow-run.BudgetReached`); success keeps its usual name, for
which automations wait.
"""

import asyncio
import errno
import logging
import re
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast
from uuid import UUID

import httpx
from prefect import State, get_client
from prefect.client.schemas.objects import StateType
from prefect.exceptions import Abort, MissingContextError, PrefectException, TerminationSignal
from prefect.logging import get_run_logger
from prefect.runtime import flow_run
from prefect.states import Cancelled, Completed, Crashed, Failed, Running

from precis.errors import BudgetReached, JudgeUnavailable, LeaseLost, PrecisError
from precis.records.ledger import Ledger
from precis.runs.lease import Holder
from precis.runs.shortcomings import shortcoming, stopped

P = ParamSpec("P")
R = TypeVar("R")

NO_SERVER = (httpx.HTTPError, PrefectException, ValueError)  # of a sign-in's page, in place of JSON
_ADVICE: dict[type[PrecisError], str] = {
    BudgetReached: "",
    JudgeUnavailable: "When the judge is back, press Retry or start it again: it continues there.",
    LeaseLost: "Do not retry this one: the run that took over continues in its place.",
}
"""The errors that name a state, and advice on each beyond its message."""
_LEVELS = {
    "precis": logging.WARNING,
    "precis.training": logging.INFO,
    "precis.benchmark": logging.INFO,
}
"""The lowest level of the lines in the run's log, by their loggers."""


class _RunLogHandler(logging.Handler):
    """Passes records to the log of the task or flow that they come from."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            logger = get_run_logger()
        except MissingContextError:  # its own thread
            logging.getLogger().handle(record)
            return
        told = {"logged_by": record.name}  # the terminal shows some (`cli/rehearsal.py`)
        logger.log(record.levelno, "%s", record.getMessage(), extra=told)


@contextmanager
def lines_in_run_log() -> Iterator[None]:
    """Put the lines of `precis` into the run's log while the block lasts.

    A nested block, of a sub-flow, changes nothing.
    """
    ours = logging.getLogger("precis")
    if any(isinstance(handler, _RunLogHandler) for handler in ours.handlers):
        yield
        return
    handler = _RunLogHandler()
    levels = {}
    for name, level in _LEVELS.items():
        logger = logging.getLogger(name)
        levels[logger] = logger.level
        logger.setLevel(level)
    ours.addHandler(handler)
    ours.propagate = False
    try:
        yield
    finally:
        for logger, level in levels.items():
            logger.setLevel(level)
        ours.removeHandler(handler)
        ours.propagate = True


def says_why_it_stops(
    flow: Callable[P, Coroutine[Any, Any, R]],
) -> Callable[P, Coroutine[Any, Any, R]]:
    """Under `@flow`: fail the run with the message of a PrecisError, or of a full disk, without a
    traceback, and show it as cancelled, not as crashed, if it is.

    The flow's caller still gets the error itself.
    """

    @wraps(flow)
    async def saying(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            with lines_in_run_log():
                return await flow(*args, **kwargs)
        except PrecisError as error:
            if isinstance(error, LeaseLost) and str(flow_run.id) in str(error):
                get_run_logger().warning("%s", error)
                raise Abort(str(error)) from error  # leaves the state to a retry, elsewhere
            kind = next((one for one in _ADVICE if isinstance(error, one)), None)
            message = f"{error} {_ADVICE[kind]}".rstrip() if kind else str(error)
            # Prefect takes a returned state as the run's.
            return cast(R, Failed(name=kind and kind.__name__, message=message, data=error))
        except TerminationSignal:
            # Prefect takes it for a crash if the signal came while a step waited for its commit.
            if await _is_being_cancelled():
                return cast(R, Cancelled())
            raise
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            where = f" ({error.filename})" if error.filename else ""
            message = f"This machine's disk is full{where}. Free some space and start it again."
            return cast(R, Failed(message=message, data=error))

    return saying


def completed(ledger: Ledger, report: R, idle: str | None = None) -> R:
    """Return a flow's result: its report, or a state with a message and the report.

    The state keeps the usual name and type, and the flow's caller gets the report. `idle` is the
    sentence of `nothing_to_train`.
    """
    early = stopped(ledger)
    if early:
        get_run_logger().info("%s", early)
    wrong = shortcoming(ledger)
    if wrong:
        get_run_logger().warning("%s", wrong)
    return said(report, " ".join(filter(None, (idle, early, wrong))))


def said(report: R, message: str) -> R:
    """Return a flow's result, with a message for its state if there is one."""
    return cast(R, Completed(message=message, data=report)) if message else report


async def show_running_as(name: str, message: str) -> None:
    """Show this flow run as running under a name, such as `Preempted`, and then as `Running`."""
    await show(flow_run.id, Running(name=name, message=message))


async def show(run: str, state: State[Any], force: bool = False) -> None:
    """Show a flow run in a state; without a server only the display is lost."""
    try:
        async with get_client() as client:
            await client.set_flow_run_state(UUID(run), state, force=force)
    except NO_SERVER as error:
        get_run_logger().warning("The run %s could not be shown as %s: %s", run, state.name, error)


async def shown_as(run: str) -> StateType | None:
    """Return the type of the state that a flow run is in; None if the server does not say."""
    with suppress(*NO_SERVER):
        async with get_client() as client:
            return (await client.read_flow_run(UUID(run))).state_type
    return None


async def _is_being_cancelled() -> bool:
    """Return whether this run or, if it is a training's benchmark, the training is cancelled."""
    with suppress(TimeoutError):
        async with asyncio.timeout(5):
            found = (await shown_as(flow_run.id), await shown_as(flow_run.root_flow_run_id))
            return StateType.CANCELLING in found
    return False


async def show_crashed(former: Holder | None) -> None:
    """Show the flow run that died with the model's lease as crashed: nobody was left to say so."""
    named = re.search(r"\((\S+)\)$", former.run) if former else None
    if named is None or named[1] == flow_run.id:  # no run, a command, or this run
        return
    if await shown_as(named[1]) == StateType.RUNNING:
        message = f"It has ended; {flow_run.name} continues."
        await show(named[1], Crashed(message=message), force=True)
