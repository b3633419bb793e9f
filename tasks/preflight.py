"""What can be found out before any work is done."""

import asyncio

from prefect import get_client, task
from prefect.exceptions import ObjectNotFound
from prefect.logging import get_run_logger

from precis.config import BenchmarkConfig
from precis.errors import ConfigError
from precis.judge.forecast import Forecast, forecast
from precis.retention import kept
from precis.run import Run
from tasks.policy import RETRIED


@task(name="preflight", task_run_name="preflight of {run.name}", **RETRIED)
async def preflight(run: Run) -> None:
    """Check that the judge answers and that the store keeps what it is given.

    Raises:
        ConfigError: the shared concurrency limit is missing or too small.
        JudgeError: the key or the model is wrong.
        StoreError: the store can't be written, or its key or bucket is wrong.
    """
    await run.judge.check()
    await asyncio.to_thread(run.store.check)
    await _check_shared_limit(run)


@task(name="forecast", task_run_name="forecast of {run.name}", **RETRIED)
async def foretell(run: Run) -> None:
    """Say what judging the rest of the run will take, before it takes anything.

    Ranking (`reward: ruler`) takes fewer calls than this, since it rules on whole groups.
    """
    if run.config.judge.provider != "lexical":
        _tell(run, judging_ahead(run))


def judging_ahead(run: Run) -> Forecast:
    """What judging the rest of the run takes, its validations and benchmark included."""
    config, held_out = run.config, run.corpus.validation
    steps = range(run.ledger.next_step, config.steps)
    rollouts = len(steps) * config.rollouts.groups_per_step * config.rollouts.rollouts_per_group
    adapters = {config.steps, *(step for step in (*steps, 0) if step % config.validate_every == 0)}
    contenders = 0
    if config.benchmark:
        kept_steps = kept(range(config.steps + 1), config.retention, {})
        contenders = len(kept_steps) + len(BenchmarkConfig.of(config).baselines)
    return forecast(
        config.judge,
        run.judge.identity["model"],
        held_out,
        summaries=rollouts + (len(adapters) + contenders) * len(held_out),
        summary_words=config.rollouts.words_max,
        ceiling=config.benchmark,
    )


def _tell(run: Run, ahead: Forecast) -> None:
    logger = get_run_logger()
    logger.info("%s", ahead)
    budget = run.config.budget_usd
    if ahead.usd is None:
        logger.warning(
            "No price is known for %s: its cost is not counted. Give one in judge.prices.",
            run.judge.identity["model"],
        )
    elif budget is not None and run.ledger.usd + ahead.usd > budget:
        logger.warning("The budget of $%.2f will not last to the last step.", budget)
    if ahead.days > 1:
        logger.warning("The daily quota suffices for one of %d days.", ahead.days)


async def _check_shared_limit(run: Run) -> None:
    """A step that asked for more slots than there are would wait for ever."""
    name, wanted = run.config.judge_concurrency_limit, run.config.judge.limits.in_flight
    if not name:
        return
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
