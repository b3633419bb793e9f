"""Sampling and scoring a step."""

from prefect import task
from prefect.flow_runs import apause_flow_run
from prefect.logging import get_run_logger

from precis.config import RolloutsConfig
from precis.errors import JudgeUnavailable
from precis.sampling.rollouts import Rollout, gather, split_groups
from precis.training.run import Run
from tasks.judging import judge_slots
from tasks.policy import RETRIED


class Gathered:
    """A step's judged rollouts and what is trained on. (Not a dataclass: see `Run`.)"""

    def __init__(self, rollouts: list[list[Rollout]], config: RolloutsConfig) -> None:
        self.rollouts = rollouts
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
    settings = run.config.rollouts
    with run.stopwatch.phase("gather"):
        async with judge_slots(run.config):
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
    gathered = Gathered(rollouts, settings)
    if gathered.dropped:
        get_run_logger().info("Step %d: dropped groups: %s", step, dict(gathered.dropped))
    return gathered
