"""The stages of a step as Prefect's tasks, and the pause of a run."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeVar

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import StateType
from prefect.concurrency.asyncio import concurrency
from prefect.logging import get_run_logger
from prefect.runtime import flow_run
from prefect.states import Paused

from precis.config import RunConfig
from precis.errors import JudgeUnavailable
from precis.records.ledger import Validation
from precis.records.rollout import Scenario
from precis.rollouts.filter import StepRollouts
from precis.training import opening, resume, stages, warm_start
from precis.training import validation as validating
from precis.training.loop import Stages
from precis.training.run import Run
from precis.training.warm_start import DemonstrationJournal
from tasks.policy import retried
from tasks.states import show, show_running_as, shown_as
from tasks.ui import watch_run

T = TypeVar("T")

_SLOTS_PATIENCE_S = 1800

load_documents = retried("load documents", "load documents of {config.model}")(
    opening.read_documents
)
start_trainer = retried("start trainer", "start trainer of {config.model}")(opening.start_trainer)


@retried("resume", "resume {run.name}")
async def resume_run(run: Run) -> None:
    """Continue from the last trained step, wherever it is kept, and register the model."""
    await resume.resume(run, commit_step, log_step)


@retried("gather rollouts", "step {step}: gather rollouts of {run.name}")
async def gather_rollouts(run: Run, step: int) -> StepRollouts:
    """Sample rollouts of the step's scenarios, and have them scored."""
    async with judge_slots(run.config):
        return await stages.gather_rollouts(run, step)


train_step = retried("train", "step {record.step}: train {run.name}")(stages.train_step)
commit_step = retried("commit", "step {record.step}: commit {run.name}")(stages.commit_step)

# Not retried, since a retry would append a second line.
log_step = task(name="log", task_run_name="step {step}: log {run.name}", cache_policy=NO_CACHE)(
    stages.log_step
)


@retried("validate", "step {step}: validate {run.name}")
async def validate(run: Run, step: int) -> Validation:
    """Measure adapter `step` on the held-out scenarios, greedy, and put it in the ledger."""
    async with judge_slots(run.config):
        return await validating.validate(run, step)


log_validation = task(
    name="log", task_run_name="log validation of {run.name}", cache_policy=NO_CACHE
)(validating.log_validation)


@retried("measure groups", "step {step}: measure groups of {run.name}")
async def measure_groups(run: Run, step: int) -> None:
    """Sample adapter `step` as a step does, and count the groups whose rewards differ."""
    async with judge_slots(run.config):
        await warm_start.measure_groups(run, step)


@retried("collect demonstrations", "demonstrations for {run.name}")
async def collect_demonstrations(
    run: Run, journal: DemonstrationJournal, scenarios: Sequence[Scenario]
) -> None:
    """Have rollouts of some scenarios made to imitate, and keep them."""
    if run.config.warm_start and run.config.warm_start.source == "teacher":
        return await warm_start.collect_demonstrations(run, journal, scenarios)  # asks no judge
    async with judge_slots(run.config):
        await warm_start.collect_demonstrations(run, journal, scenarios)


imitate = retried("imitate", "step 0: imitate for {run.name}")(warm_start.imitate)


async def wait_out_judge(run: Run, work: Callable[[], Awaitable[T]]) -> T:
    """Do work that needs the judge; if the judge is unavailable, pause until the run is resumed.
    Raises JudgeUnavailable if the run is not to wait, or was not resumed in time."""
    patience_s = run.config.judge_patience_s
    while True:
        try:
            return await work()
        except JudgeUnavailable as error:
            if not patience_s:
                raise
            get_run_logger().error("%s Press Resume when the judge is back.", error)
            # After its own time the server would put another end in place of ours.
            await show(flow_run.id, Paused(timeout_seconds=2 * patience_s))
            deadline = time.monotonic() + patience_s
            # It is scheduled if it was retried after this machine slept for longer.
            while await shown_as(flow_run.id) not in (StateType.RUNNING, StateType.SCHEDULED):
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(1)


STAGES = Stages(
    resume=resume_run,
    gather=gather_rollouts,
    train=train_step,
    commit=commit_step,
    log=log_step,
    validate=validate,
    log_validation=log_validation,
    measure=measure_groups,
    collect=collect_demonstrations,
    imitate=imitate,
    around_judge=wait_out_judge,
    show_state=show_running_as,
    watch=watch_run,
)
"""The stages of a run in Prefect."""


@asynccontextmanager
async def judge_slots(config: RunConfig) -> AsyncIterator[None]:
    """Hold this flow's slots of a limit that several flows share, while the block lasts. Raises
    JudgeUnavailable if no slots became free in half an hour.

    Taken for a whole step, validation or contender: for each request it would cost more than the
    judge's answer.
    """
    name = config.judge_concurrency_limit
    wanted = config.judge.limits.in_flight
    async with AsyncExitStack() as stack:
        if name:
            slots = concurrency(
                name,
                occupy=wanted,
                timeout_seconds=_SLOTS_PATIENCE_S,
                strict=True,
                raise_on_lease_renewal_failure=False,  # a restarted server has forgotten them
            )
            try:
                await stack.enter_async_context(slots)
            except TimeoutError as error:
                raise JudgeUnavailable(
                    f"The global concurrency limit {name!r} had no {wanted} free slots in "
                    f"{_SLOTS_PATIENCE_S // 60} minutes.",
                    "If nobody uses it, a killed flow still holds "
                    f"some: free them with `prefect gcl update {name} --active-slots 0`.",
                ) from error
        yield
