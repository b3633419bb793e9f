"""The stages of a step as Prefect's tasks, and what pauses a run."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TypeVar

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.concurrency.asyncio import concurrency
from prefect.flow_runs import apause_flow_run
from prefect.logging import get_run_logger

from precis.config import RunConfig
from precis.errors import JudgeUnavailable
from precis.records.ledger import StepRecord, Validation
from precis.records.rollout import Scenario
from precis.records.warm_start import GroupVariance
from precis.rollouts.filter import StepRollouts, TrainingBatch
from precis.training import resume, stages, warm_start
from precis.training import validation as validating
from precis.training.demonstrations import DemonstrationJournal
from precis.training.loop import Stages
from precis.training.run import Run
from tasks.policy import RETRIED
from tasks.states import show_running_as
from tasks.ui import watch_run

T = TypeVar("T")

_SLOTS_PATIENCE_S = 1800


@task(name="resume", task_run_name="resume {run.name}", **RETRIED)
async def resume_run(run: Run) -> None:
    """Go on from the last step that is trained, wherever it has got to, and register the model."""
    await resume.resume(run, commit_step, log_step)


@task(name="gather rollouts", task_run_name="step {step}: gather rollouts of {run.name}", **RETRIED)
async def gather_rollouts(run: Run, step: int) -> StepRollouts:
    """Sample rollouts of the step's scenarios, and have them scored."""
    async with judge_slots(run.config):
        return await stages.gather_rollouts(run, step)


@task(name="train", task_run_name="step {record.step}: train {run.name}", **RETRIED)
async def train_step(run: Run, record: StepRecord, batch: TrainingBatch) -> StepRecord:
    """Turn adapter `record.step` into the next; a repeat gets the stored result."""
    return await stages.train_step(run, record, batch)


@task(name="commit", task_run_name="step {record.step}: commit {run.name}", **RETRIED)
async def commit_step(run: Run, record: StepRecord) -> None:
    """Put checkpoint `record.step + 1` into the store, then the step into the ledger."""
    await stages.commit_step(run, record)


@task(name="log", task_run_name="step {step}: log {run.name}", cache_policy=NO_CACHE)
async def log_step(run: Run, step: int, batch: TrainingBatch | None = None) -> None:
    """Append the step to ART's files and to W&B; not retried, since it would be there twice."""
    await stages.log_step(run, step, batch)


@task(name="validate", task_run_name="step {step}: validate {run.name}", **RETRIED)
async def validate(run: Run, step: int) -> Validation:
    """Measure adapter `step` on the held-out scenarios, greedy, and put it in the ledger."""
    async with judge_slots(run.config):
        return await validating.validate(run, step)


@task(name="log", task_run_name="log validation of {run.name}", cache_policy=NO_CACHE)
async def log_validation(run: Run, validation: Validation) -> None:
    """Append a validation to ART's files and to W&B."""
    await validating.log_validation(run, validation)


@task(name="measure groups", task_run_name="step {step}: measure groups of {run.name}", **RETRIED)
async def measure_groups(run: Run, step: int) -> GroupVariance:
    """Sample adapter `step` as a step does, and see how many groups have rewards that differ."""
    async with judge_slots(run.config):
        return await warm_start.measure_groups(run, step)


@task(name="collect demonstrations", task_run_name="demonstrations for {run.name}", **RETRIED)
async def collect_demonstrations(
    run: Run, journal: DemonstrationJournal, scenarios: Sequence[Scenario]
) -> None:
    """Have rollouts of some scenarios made to imitate, and keep them."""
    if run.config.warm_start and run.config.warm_start.source == "teacher":
        return await warm_start.collect_demonstrations(run, journal, scenarios)  # asks no judge
    async with judge_slots(run.config):
        await warm_start.collect_demonstrations(run, journal, scenarios)


@task(name="imitate", task_run_name="step 0: imitate for {run.name}", **RETRIED)
async def imitate(run: Run, journal: DemonstrationJournal) -> StepRecord:
    """Turn adapter 0 into adapter 1, by imitation; a repeat gets the stored result."""
    return await warm_start.imitate(run, journal)


async def wait_out_judge(run: Run, work: Callable[[], Awaitable[T]]) -> T:
    """Do what needs the judge; with the judge out, pause until somebody resumes the run.

    Raises:
        JudgeUnavailable: the judge is out, and the run has no patience.
        prefect.exceptions.FlowPauseTimeout: nobody resumed the run in time.
    """
    while True:
        try:
            return await work()
        except JudgeUnavailable as error:
            if not run.config.judge_patience_s:
                raise
            get_run_logger().error("%s Press Resume when the judge is back.", error)
            await apause_flow_run(timeout=run.config.judge_patience_s)


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
"""What a run in Prefect is made of."""


@asynccontextmanager
async def judge_slots(config: RunConfig) -> AsyncIterator[None]:
    """This flow's share of a limit that several keep together, for as long as the block lasts.

    Taken for a whole step, validation or contender: for each request it would cost more than the
    judge's answer.

    Raises:
        JudgeUnavailable: no slots came free in half an hour.
    """
    name = config.judge_concurrency_limit
    wanted = config.judge.limits.in_flight
    async with AsyncExitStack() as stack:
        if name:
            slots = concurrency(name, occupy=wanted, timeout_seconds=_SLOTS_PATIENCE_S, strict=True)
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
