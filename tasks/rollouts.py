"""Sampling and scoring a step."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from prefect import task
from prefect.concurrency.asyncio import concurrency
from prefect.flow_runs import apause_flow_run
from prefect.logging import get_run_logger

from precis.config import RolloutsConfig
from precis.errors import JudgeUnavailable
from precis.judge.spend import Spend
from precis.rollouts import Rollout, gather, split_groups
from precis.run import Run
from tasks.policy import RETRIED


class Gathered:
    """A step's judged rollouts and what is trained on. (Not a dataclass: see `Run`.)"""

    def __init__(self, rollouts: list[list[Rollout]], config: RolloutsConfig, spend: Spend) -> None:
        self.rollouts, self.spend = rollouts, spend
        self.groups, self.dropped = split_groups(rollouts, config)


async def gather_or_pause(run: Run, step: int) -> Gathered:
    """Gather the step's rollouts; with the judge out, pause until somebody resumes the run.

    Raises:
        JudgeUnavailable: the judge is out, and the run has no patience.
        prefect.exceptions.FlowPauseTimeout: nobody resumed the run in time.
    """
    while True:
        try:
            return await gather_rollouts(run, step)
        except JudgeUnavailable as error:
            if not run.config.judge_patience_s:
                raise
            get_run_logger().error("%s Press Resume when the judge is back.", error)
            await apause_flow_run(timeout=run.config.judge_patience_s)


@task(name="gather rollouts", task_run_name="step {step}: gather rollouts of {run.name}", **RETRIED)
async def gather_rollouts(run: Run, step: int) -> Gathered:
    """Sample summaries of the step's documents from adapter `step` and have them judged."""
    settings, spent = run.config.rollouts, run.spend
    with run.stopwatch.phase("gather"):
        async with judge_slots(run):
            rollouts = await gather(
                run.model.openai_client(),
                run.model.get_inference_name(step),
                run.judge,
                run.corpus.batch(run.config.seed, step, settings.groups_per_step),
                settings,
                seed=run.config.seed,
                step=step,
                ruler=run.ruler,
            )
    gathered = Gathered(rollouts, settings, run.spend.since(spent))
    if gathered.dropped:
        get_run_logger().info("Step %d: dropped groups: %s", step, dict(gathered.dropped))
    return gathered


@asynccontextmanager
async def judge_slots(run: Run) -> AsyncIterator[None]:
    """The judge's share of a limit that several flows keep together, for a whole step.

    Taken once a step: each request of its own would cost more than the judge's answer.
    """
    name = run.config.judge_concurrency_limit
    if not name:
        yield
        return
    async with concurrency(name, occupy=run.config.judge.limits.in_flight, strict=True):
        yield
