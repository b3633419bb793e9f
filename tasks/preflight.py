"""What can be found out before any work is done."""

import asyncio
from functools import partial

from prefect import get_client, task
from prefect.artifacts import acreate_table_artifact
from prefect.exceptions import ObjectNotFound
from prefect.logging import get_run_logger

from precis.benchmark.measure import measure_ceiling
from precis.checks import Check, check_wandb, raise_failures, run_checks
from precis.cleartext import keys_in_clear
from precis.cluster.offers import budget_lasts, gpu_offered, infra_enabled
from precis.config import BenchmarkConfig
from precis.environment import Environment
from precis.errors import ConfigError
from precis.judge.ceiling import CEILING_DOCUMENTS, check_ceiling
from precis.judge.forecast import Forecast, forecast
from precis.models.licences import check_licence, restriction_of
from precis.run.retention import kept
from precis.training.fork import check_origin
from precis.training.run import Run
from tasks.artifacts import artifact_key
from tasks.policy import RETRIED

_DEADLINE_S = 300.0
"""For each check; the judge has its own, and SkyPilot's first look at a cloud is slow."""


@task(name="preflight", task_run_name="preflight of {run.name}", **RETRIED)
async def preflight(run: Run) -> None:
    """Find out what can be found out before anything is rented, and show it as one table.

    Raises:
        PrecisError: what stands in the way: a key, a bucket, a limit, a GPU that nobody offers.
    """
    restriction = restriction_of(run.config.trainer)
    if restriction:
        get_run_logger().warning("%s", restriction)
    rows = await run_checks(_checks(run), _DEADLINE_S)
    if all(row.ok for row in rows):
        rows += await run_checks({"ceiling": partial(_ceiling, run)}, _DEADLINE_S)
    table = [
        {
            "check": row.name,
            "verdict": "ok" if row.ok else "FAILS",
            "found": row.detail,
            "do": row.remedy,
        }
        for row in rows
    ]
    await acreate_table_artifact(key=artifact_key(run.name, "preflight"), table=table)
    for sentence in keys_in_clear(run.config):
        get_run_logger().warning("%s", sentence)
    raise_failures(rows)


def _checks(run: Run) -> dict[str, Check]:
    """Each check, by its name in the table."""
    cluster = run.config.cluster
    checks: dict[str, Check] = {
        "documents": partial(_documents, run),
        "judge": partial(_judge, run),
        "store": partial(_store, run),
        "shared limit": partial(_shared_limit, run),
        "W&B": partial(_wandb, run),
        "licence": partial(check_licence, run.config.trainer),
    }
    if cluster.where == "local":
        return checks
    return checks | {
        "SkyPilot's keys": partial(infra_enabled, cluster),
        "GPU": partial(gpu_offered, cluster),
        "budget": partial(budget_lasts, cluster, run.config.budget_usd),
    }


async def _documents(run: Run) -> str:
    corpus = run.corpus
    return f"{len(corpus.train)} to train on, {len(corpus.validation)} held out"


async def _judge(run: Run) -> str:
    await run.judge.check()
    return run.judge.identity["model"]


async def _ceiling(run: Run) -> str:
    """What the judge answers from the full documents, on a sample where there are many."""
    judge = run.judge
    found = await measure_ceiling(run.store, judge, run.corpus, CEILING_DOCUMENTS)
    if found is None:
        return "not measured: the judge failed on a document"
    warning = check_ceiling(found, run.config.ceiling_min, judge.identity["model"])
    if warning:
        get_run_logger().warning("%s", warning)
    return f"the judge answers {found:.0%} of the questions from the full documents"


async def _wandb(run: Run) -> str:
    found = await check_wandb()
    if run.config.trainer.kind == "serverless" and Environment().wandb_api_key is None:
        raise ConfigError("Serverless training needs WANDB_API_KEY. Set it, here or in .env.")
    return found


async def _store(run: Run) -> str:
    await asyncio.to_thread(run.store.check)
    await asyncio.to_thread(check_origin, run.store, run.name, run.config.from_checkpoint)
    return run.store.url


@task(name="forecast", task_run_name="forecast of {run.name}", **RETRIED)
async def announce_cost(run: Run) -> None:
    """Say what judging the rest of the run will take, before it takes anything.

    Ranking (`reward: ruler`) takes fewer calls than this, since it rules on whole groups.
    """
    if run.config.judge.provider != "lexical":
        _tell(run, judging_ahead(run))


def judging_ahead(run: Run) -> Forecast:
    """What judging the rest of the run takes, its validations and benchmark included."""
    config = run.config
    held_out = run.corpus.validation
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


async def _shared_limit(run: Run) -> str:
    """A step that asked for more slots than there are would wait for ever."""
    name = run.config.judge_concurrency_limit
    wanted = run.config.judge.limits.in_flight
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
