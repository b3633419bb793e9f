"""Sampling and scoring a step."""

from prefect import task
from prefect.logging import get_run_logger

from precis.config import RolloutsConfig
from precis.rollouts import Rollout, gather, split_groups
from precis.run import Run
from tasks.policy import RETRIED


class Gathered:
    """A step's judged rollouts and what is trained on. (Not a dataclass: see `Run`.)"""

    def __init__(self, rollouts: list[list[Rollout]], config: RolloutsConfig, usd: float) -> None:
        self.rollouts, self.usd = rollouts, usd
        self.groups, self.dropped = split_groups(rollouts, config)


@task(name="gather rollouts", task_run_name="step {step}: gather rollouts of {run.name}", **RETRIED)
async def gather_rollouts(run: Run, step: int) -> Gathered:
    """Sample summaries of the step's documents from adapter `step` and have them judged."""
    settings, spent = run.config.rollouts, run.judge.spend.usd
    with run.stopwatch.phase("gather"):
        rollouts = await gather(
            run.model.openai_client(),
            run.model.get_inference_name(step),
            run.judge,
            run.corpus.batch(run.config.seed, step, settings.groups_per_step),
            settings,
            seed=run.config.seed,
            step=step,
        )
    gathered = Gathered(rollouts, settings, run.judge.spend.usd - spent)
    if gathered.dropped:
        get_run_logger().info("Step %d: dropped groups: %s", step, dict(gathered.dropped))
    return gathered
