"""The reason why a run stopped, as the name of its state; what to do next, as its message.

The state's type stays what it is, so that Retry works and `state_type` can be filtered by. A
state with its own name emits an event of that name (`prefect.flow-run.BudgetReached`), so
success keeps its usual one, which automations wait for.
"""

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast
from uuid import UUID

import httpx
from prefect import State, get_client
from prefect.exceptions import PrefectException
from prefect.logging import get_run_logger
from prefect.runtime import flow_run
from prefect.states import Completed, Failed, Running

from precis.errors import BudgetReached, JudgeUnavailable, LeaseLost, PrecisError
from precis.records.ledger import Ledger
from precis.run.shortcomings import shortcoming, stopped
from tasks.run_log import lines_in_run_log

P = ParamSpec("P")
R = TypeVar("R")

_ADVICE: dict[type[PrecisError], str] = {
    BudgetReached: "",
    JudgeUnavailable: "When the judge is back, press Retry: it continues at the step that failed.",
    LeaseLost: "Do not retry this one: the run that took over goes on in its place.",
}
"""The errors that name a state, and what to do about each beyond its own message."""


def says_why_it_stops(
    flow: Callable[P, Coroutine[Any, Any, R]],
) -> Callable[P, Coroutine[Any, Any, R]]:
    """Under `@flow`: an error of ours fails the run with its sentence, and no traceback.

    Whoever has called the flow still gets the error itself.
    """

    @wraps(flow)
    async def saying(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            with lines_in_run_log():
                return await flow(*args, **kwargs)
        except PrecisError as error:
            return cast(R, failed(error))  # Prefect takes a state that is returned as the run's

    return saying


def completed(ledger: Ledger, report: R, idle: str | None = None) -> R:
    """Return a flow's result: its report, or a state that says what is to say as well.

    The state keeps the usual name and type, and whoever called the flow gets the report.

    Args:
        idle: why the run trained nothing, where it did not (`nothing_to_train`).
    """
    early = stopped(ledger)
    if early:
        get_run_logger().info("%s", early)
    wrong = shortcoming(ledger)
    if wrong:
        get_run_logger().warning("%s", wrong)
    message = " ".join(filter(None, (idle, early, wrong)))
    return cast(R, Completed(message=message, data=report)) if message else report


def failed(error: PrecisError) -> State[Any]:
    """Return the state of a run that stopped with this error; `Failed` where it needs no other
    name."""
    for kind, advice in _ADVICE.items():
        if isinstance(error, kind):
            message = f"{error} {advice}".rstrip()
            return Failed(name=kind.__name__, message=message, data=error)
    return Failed(message=str(error), data=error)


async def show_running_as(name: str, message: str) -> None:
    """Show this flow run as running under a name, such as `Preempted`, then `Recovering`.

    `Running` brings the usual name back. A server that is out costs the view, and no more.
    """
    try:
        async with get_client() as client:
            state: State[Any] = Running(name=name, message=message)
            await client.set_flow_run_state(UUID(flow_run.id), state)
    except (httpx.HTTPError, PrefectException) as error:
        get_run_logger().warning("The run could not be shown as %s: %s", name, error)
