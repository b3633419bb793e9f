"""How tasks are retried and cached."""

from typing import Any

from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.tasks import Task

from precis.errors import (
    BudgetReached,
    ConfigError,
    CorruptCheckpoint,
    JudgeRejected,
    ProviderRejected,
    StepConflict,
    StoreConflict,
    StoreRefused,
    TrainerLost,
    Unauthorized,
    UnusableRun,
)

HOPELESS = (
    BudgetReached,
    ConfigError,
    CorruptCheckpoint,
    JudgeRejected,
    ProviderRejected,
    StepConflict,
    StoreConflict,
    StoreRefused,
    TrainerLost,  # the client has tried again for seconds, and its process will not come back
    Unauthorized,
    UnusableRun,
)
"""What fails the same way however often it is tried."""


def worth_retrying(task: Task[Any, Any], run: TaskRun, state: State[Any]) -> bool:
    """Whether another try may end differently."""
    return not isinstance(state.data, HOPELESS)


RETRIED: dict[str, Any] = {
    "retries": 3,
    "retry_delay_seconds": [1, 5, 20],
    "retry_jitter_factor": 0.3,
    "retry_condition_fn": worth_retrying,
    # The ledger says what is done already; Prefect's cache would hold live clients.
    "cache_policy": NO_CACHE,
}
"""The policy of every task that leaves the process."""
