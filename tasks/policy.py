"""The retries and the caching of tasks."""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.logging import get_run_logger
from prefect.tasks import Task

from precis.errors import HOPELESS, PrecisError

P = ParamSpec("P")
R = TypeVar("R")


def worth_retrying(_: Task[Any, Any], run: TaskRun, state: State[Any]) -> bool:
    """Return whether a retry may succeed; if so, warn of the failure."""
    if isinstance(state.data, HOPELESS):
        return False
    what = state.data if isinstance(state.data, PrecisError) else repr(state.data)
    said = f"{run.name} failed, and is tried again within 30 s: {what}"
    get_run_logger().warning("%s", said, extra={"send_to_api": False})  # Prefect says so there
    return True


RETRIED: dict[str, Any] = {
    "retries": 3,
    "retry_delay_seconds": [1, 5, 20],
    "retry_jitter_factor": 0.3,
    "retry_condition_fn": worth_retrying,
    # The ledger knows the finished work; Prefect's cache would hold live clients.
    "cache_policy": NO_CACHE,
}
"""The policy of every task that leaves the process."""


def retried(name: str, run_name: str) -> Callable[[Callable[P, R]], Task[P, R]]:
    """Make a function a task with this policy. `run_name` is the name of a task run, with the
    function's arguments in braces."""
    return task(name=name, task_run_name=run_name, **RETRIED)
