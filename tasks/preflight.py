"""The checks before any work."""

from functools import partial
from typing import Any

from prefect import get_client, task
from prefect.artifacts import acreate_table_artifact
from prefect.client.schemas.objects import State, TaskRun
from prefect.exceptions import ObjectNotFound
from prefect.logging import get_run_logger
from prefect.tasks import Task

from precis.checks import raise_failures
from precis.config import RunConfig, TrainConfig
from precis.environments.protocol import Environment
from precis.errors import ConfigError, JudgeUnavailable
from precis.training import preflight as training_preflight
from precis.training.preflight import Preflight
from tasks.policy import RETRIED, retried, worth_retrying
from tasks.ui import artifact_key


async def preflight(config: TrainConfig, environment: Environment) -> None:
    """Check everything that can be checked before anything is rented, and show one table. Raises
    PrecisError for an obstacle: a key, a bucket, a limit, a GPU that no cloud offers."""
    warn = get_run_logger().warning
    ahead = Preflight(config, environment, warn)
    for sentence in ahead.warnings():
        warn("%s", sentence)
    await make_checks(ahead)


def _worth_checking_again(task: Task[Any, Any], run: TaskRun, state: State[Any]) -> bool:
    """Return whether a retry may succeed; the judge's client has retried for long enough."""
    return not isinstance(state.data, JudgeUnavailable) and worth_retrying(task, run, state)


@task(
    name="preflight",
    task_run_name="preflight of {preflight.config.model}",
    **{**RETRIED, "retry_condition_fn": _worth_checking_again},
)
async def make_checks(preflight: Preflight) -> None:
    """Make all checks, show their table, and raise a PrecisError if one has failed."""
    config = preflight.config
    rows = await preflight.run({"shared limit": partial(check_shared_limit, config)})
    table = [row.cells for row in rows]
    await acreate_table_artifact(key=artifact_key(config.model, "preflight"), table=table)
    raise_failures(rows)


announce_cost = retried("forecast", "forecast of {config.model}")(training_preflight.announce_cost)


async def check_shared_limit(config: RunConfig) -> str:
    """Check that the shared limit has enough slots for a step; a ConfigError says that it is
    missing, or has too few."""
    name = config.judge_concurrency_limit
    wanted = config.judge.limits.in_flight
    if not name:
        return "none is used"
    async with get_client() as client:
        try:
            slots = (await client.read_global_concurrency_limit_by_name(name)).limit
        except ObjectNotFound as error:
            raise ConfigError(
                f"There is no global concurrency limit {name!r}: make it with `prefect gcl create "
                f"{name} --limit {wanted}`, or leave judge_concurrency_limit empty."
            ) from error
    if slots < wanted:
        raise ConfigError(
            f"The global concurrency limit {name!r} has {slots} slots, and a step takes "
            f"{wanted} (judge.limits.in_flight): raise the one or lower the other."
        )
    return f"{name}: {slots} slots"
