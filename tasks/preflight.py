"""What can be found out before any work is done."""

from typing import Any

from prefect import get_client, task
from prefect.artifacts import acreate_table_artifact
from prefect.client.schemas.objects import State, TaskRun
from prefect.exceptions import ObjectNotFound
from prefect.logging import get_run_logger
from prefect.tasks import Task

from precis.benchmark.teacher import forecast_teacher, teacher_of
from precis.checks import CheckResult, raise_failures, run_checks
from precis.cleartext import keys_in_clear
from precis.config import RunConfig, TrainConfig
from precis.environments.protocol import Environment
from precis.environments.summaries.environment import Summaries
from precis.environments.summaries.judge.forecast import Forecast
from precis.errors import ConfigError, JudgeUnavailable
from precis.models.licences import restriction_of
from precis.settings.tinker import TinkerTrainer
from precis.training.forecast import forecast_judging, forecast_second_judge, forecast_service
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
    summaries = run.environment
    if not isinstance(summaries, Summaries):
        return  # what another asks for, nobody knows beforehand
    config = run.config
    at = run.ledger.next_step
    held_out = summaries.corpus.validation
    usd = run.ledger.usd
    apart = run.warm_start.documents if run.warm_start else ()
    if isinstance(config.trainer, TinkerTrainer):
        charged = forecast_service(config, config.trainer, at, held_out)
        get_run_logger().info("%s", charged)
        usd += charged.usd or 0.0
        if charged.usd is None:
            get_run_logger().warning(
                "What the Tinker service charges is not counted. Give its prices in trainer.prices."
            )
    teacher = teacher_of(config, summaries.task)
    if teacher and at == 0:
        asked = forecast_teacher(teacher.spec, apart, summaries.task)
        get_run_logger().info("%s", asked)
        usd += asked.usd or 0.0
    if config.judge.provider != "lexical":
        model = summaries.judge.identity["model"]
        usd += _announce(forecast_judging(config, at, held_out, model, len(apart)), model)
    if summaries.second:
        model = summaries.second.identity["model"]
        ahead = forecast_second_judge(config, at, held_out, model)
        if ahead and config.second_judge and config.second_judge.provider != "lexical":
            usd += _announce(ahead, model)
    if config.budget_usd is not None and usd > config.budget_usd:
        get_run_logger().warning(
            "The budget of $%.2f will not last to the last step.", config.budget_usd
        )


def _announce(ahead: Forecast, model: str) -> float:
    """Say what a judge will take; returns its dollars, as far as they are known."""
    logger = get_run_logger()
    logger.info("%s", ahead)
    if ahead.usd is None:
        logger.warning(
            "No price is known for %s: its cost is not counted. Give one in its prices.", model
        )
    if ahead.days > 1:
        logger.warning("The daily quota suffices for one of %d days.", ahead.days)
    return ahead.usd or 0.0


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
