"""What can be found out before any work is done."""

from typing import Any

from prefect import get_client, task
from prefect.artifacts import acreate_table_artifact
from prefect.client.schemas.objects import State, TaskRun
from prefect.exceptions import ObjectNotFound
from prefect.logging import get_run_logger
from prefect.tasks import Task

from precis.checks import CheckResult, raise_failures, run_checks
from precis.cleartext import keys_in_clear
from precis.config import RunConfig, TrainConfig
from precis.environments.protocol import Environment
from precis.errors import ConfigError, JudgeUnavailable
from precis.models.licences import restriction_of
from precis.training import preflight as training_preflight
from precis.training.preflight import Preflight
from precis.training.run import Run
from tasks.policy import RETRIED, worth_retrying
from tasks.ui import artifact_key

_DEADLINE_S = 300.0
"""For each check; the judge has its own, and SkyPilot's first look at a cloud is slow."""


async def preflight(config: TrainConfig, environment: Environment) -> None:
    """Find out what can be found out before anything is rented, and show it as one table.

    Raises:
        PrecisError: what stands in the way: a key, a bucket, a limit, a GPU that nobody offers.
    """
    logger = get_run_logger()
    restriction = restriction_of(config.trainer)
    if restriction:
        logger.warning("%s", restriction)
    if environment.caveat:
        logger.warning("%s", environment.caveat)
    for sentence in keys_in_clear(config):
        logger.warning("%s", sentence)
    await make_checks(Preflight(config, environment, logger.warning))


def _worth_checking_again(task: Task[Any, Any], run: TaskRun, state: State[Any]) -> bool:
    """Whether another try may end differently; the judge's client has tried for long enough."""
    return worth_retrying(task, run, state) and not isinstance(state.data, JudgeUnavailable)


@task(
    name="preflight",
    task_run_name="preflight of {preflight.config.model}",
    **{**RETRIED, "retry_condition_fn": _worth_checking_again},
)
async def make_checks(preflight: Preflight) -> None:
    """Make all checks, show their table, and stop where one has failed.

    Raises:
        PrecisError: what stands in the way.
    """
    config = preflight.config

    async def shared_limit() -> str:
        return await _check_shared_limit(config)

    checks = {**preflight.checks(), "shared limit": shared_limit}
    rows = await run_checks(checks, _DEADLINE_S)
    if all(row.ok for row in rows):
        rows += await run_checks({"ceiling": preflight.ceiling}, _DEADLINE_S)
    table = list(map(_format_row, rows))
    await acreate_table_artifact(key=artifact_key(config.model, "preflight"), table=table)
    raise_failures(rows)


def _format_row(row: CheckResult) -> dict[str, str]:
    """A row of the table."""
    return {
        "check": row.name,
        "verdict": "ok" if row.ok else "FAILS",
        "found": row.detail,
        "do": row.remedy,
    }


@task(name="forecast", task_run_name="forecast of {run.name}", **RETRIED)
async def announce_cost(run: Run) -> None:
    """Say what the rest of the run will cost: the training service, a teacher, and the judges."""
    training_preflight.announce_cost(run)


async def _check_shared_limit(config: RunConfig) -> str:
    """Whether a step that asks for its slots would ever get them."""
    name = config.judge_concurrency_limit
    wanted = config.judge.limits.in_flight
    if not name:
        return "none is used"
    async with get_client() as client:
        try:
            limit = await client.read_global_concurrency_limit_by_name(name)
        except ObjectNotFound as error:
            raise ConfigError(
                f"There is no global concurrency limit {name!r}: make it with `prefect gcl create "
                f"{name} --limit {wanted}`, or leave judge_concurrency_limit empty."
            ) from error
    if limit.limit < wanted:
        raise ConfigError(
            f"The global concurrency limit {name!r} has {limit.limit} slots, and a step takes "
            f"{wanted} (judge.limits.in_flight): raise the one or lower the other."
        )
    return f"{name}: {limit.limit} slots"
