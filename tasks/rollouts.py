"""Sampling and scoring: a step's rollouts, and those of a validation."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TypeVar

from prefect import task
from prefect.concurrency.asyncio import concurrency
from prefect.flow_runs import apause_flow_run
from prefect.logging import get_run_logger

from precis.config import RolloutsConfig, RunConfig
from precis.environments.session import Policy
from precis.environments.trajectories import transcript
from precis.errors import JudgeUnavailable, StoreError
from precis.processes.kill_points import reached
from precis.records.ledger import Validation
from precis.records.rollout import Rollout, Scenario, Split
from precis.records.trajectories import put_trajectories, read_rollouts
from precis.rollouts.draw import draw_batch, draw_spares
from precis.rollouts.filter import refuse_too_many_unscored
from precis.rollouts.sample import adapter_policy, sample_each, sample_groups, sampled
from precis.run.shortcomings import narrowed, parted
from precis.run.validations import last_gain
from precis.training.batch import StepRollouts
from precis.training.run import Run
from precis.training.steps import validation_of
from tasks.policy import RETRIED

T = TypeVar("T")

_SLOTS_PATIENCE_S = 1800


async def sample_and_score(run: Run, step: int) -> StepRollouts:
    """The step's rollouts, sampled ahead or now, as `wait_out_judge` gets them."""
    return await wait_out_judge(run, partial(_take_or_gather, run, step))


def sample_ahead(run: Run, step: int) -> None:
    """Begin to sample a step while the one before it is trained, where the settings say so."""
    # Beyond a limit the run stops before that step.
    if run.config.off_policy_steps and step < run.config.steps and not run.is_at_limit:
        run.ahead.start(step, gather_rollouts(run, step))


async def wait_for_sampling(run: Run) -> None:
    """Wait until what is sampled ahead is there; what that takes counts for its step."""
    with run.stopwatch.phase("gather"):
        await run.ahead.wait()


async def _take_or_gather(run: Run, step: int) -> StepRollouts:
    with run.stopwatch.phase("gather"):
        ahead = await run.ahead.take(step)
        return await gather_rollouts(run, step) if ahead is None else ahead


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


@task(name="gather rollouts", task_run_name="step {step}: gather rollouts of {run.name}", **RETRIED)
async def gather_rollouts(run: Run, step: int) -> StepRollouts:
    """Sample rollouts of the step's scenarios, from the adapter that is the step's to sample from,
    and have them scored."""
    settings = run.config.rollouts
    seed = run.config.seed
    size = settings.groups_per_step
    scenarios = draw_batch(run.drawn, seed, step, size)
    spares = draw_spares(run.drawn, seed, step, size, settings.replacements_max)
    adapter = run.adapter_for(step)
    spent = run.spend
    start = time.perf_counter()
    reached("before sampling", step)
    async with judge_slots(run.config):
        rows = await sample_scenarios(run, step, adapter, scenarios, settings, spares)
    reached("rollouts scored", step)
    return StepRollouts(rows, adapter, time.perf_counter() - start, run.spend.since(spent))


@task(name="validate", task_run_name="step {step}: validate {run.name}", **RETRIED)
async def validate(run: Run, step: int) -> Validation:
    """Measure adapter `step` on the held-out scenarios, greedy, and put it in the ledger."""
    start = time.perf_counter()
    async with judge_slots(run.config):
        rollouts = await _roll_out_greedy(run, step)
    reached("validation scored", step)
    refuse_too_many_unscored(rollouts, run.config.rollouts)
    await _show_validation(run, step, rollouts)
    await keep_rollouts(run, "validation", step, [[one] for one in rollouts], adapter=step)
    validation = validation_of(step, rollouts, time.perf_counter() - start, run.environment)
    gained = last_gain(run.ledger.validations, validation)
    validation = validation.model_copy(update={"last_gain": gained})
    # What was sampled ahead is booked with its step.
    spend = run.unbooked.since(run.ahead.spend)
    await run.write_ledger(run.ledger.add_validation(validation, spend.usd), spend)
    _warn(run, validation)
    return validation


async def sample_scenarios(
    run: Run,
    step: int,
    adapter: int,
    scenarios: Sequence[Scenario],
    settings: RolloutsConfig,
    spares: Sequence[Scenario] = (),
) -> list[list[Rollout]]:
    """Groups of rollouts of some scenarios, sampled from an adapter to train on."""
    async with _policy(run, adapter) as greedy:
        # W&B's service trains on text, and knows no ids.
        trained = run.config.trainer.kind != "serverless"
        policy = sampled(greedy, run.config.seed, step, settings.temperature, trained)
        return await sample_groups(
            run.recorder, policy, run.environment, scenarios, settings, spares
        )


async def _roll_out_greedy(run: Run, adapter: int) -> list[Rollout]:
    settings = run.config.rollouts
    async with _policy(run, adapter) as policy:
        return await sample_each(run.recorder, policy, run.environment, run.held_out, settings)


def _policy(run: Run, adapter: int) -> AbstractAsyncContextManager[Policy]:
    name = run.model.get_inference_name(adapter)
    return adapter_policy(run.model.openai_client(), name, adapter, run.config.rollouts)


def _warn(run: Run, validation: Validation) -> None:
    """Say what is no good news: of the second judge, and of the policy's entropy."""
    if any(one.judge for one in run.environment.figures) and validation.second is None:
        get_run_logger().warning("The second judge failed on all held-out scenarios.")
    for found in (parted(run.ledger), narrowed(run.ledger)):
        if found:
            get_run_logger().warning("%s", found)


async def keep_rollouts(
    run: Run, split: Split, step: int, rows: Sequence[Sequence[Rollout]], adapter: int
) -> None:
    """Put an adapter's rollouts into the store; tell the observers."""
    groups = transcript(rows, run.model.get_inference_name(adapter))
    await asyncio.to_thread(put_trajectories, run.store, run.name, split, step, groups)
    run.log.tell_samples(rows, run.ledger.run_id, split, step, adapter)


@asynccontextmanager
async def judge_slots(config: RunConfig) -> AsyncIterator[None]:
    """This flow's share of a limit that several keep together, for as long as the block lasts.

    Taken for a whole step, validation or contender: for each request it would cost more than the
    judge's answer.

    Raises:
        JudgeUnavailable: no slots came free in half an hour.
    """
    async with AsyncExitStack() as stack:
        if config.judge_concurrency_limit:
            await _take_slots(stack, config)
        yield


async def _take_slots(stack: AsyncExitStack, config: RunConfig) -> None:
    name = config.judge_concurrency_limit
    wanted = config.judge.limits.in_flight
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


async def _show_validation(run: Run, step: int, rollouts: Sequence[Rollout]) -> None:
    """Have the report show these rollouts beside the run's first ones."""
    if run.log.seen.first is None and run.ledger.validations:
        first = run.ledger.validations[0].step
        run.log.show_validation(first, await _read_validation(run, first))
    run.log.show_validation(step, rollouts)


async def _read_validation(run: Run, step: int) -> list[Rollout]:
    """What another process saw of a validation, for the report to compare with."""
    try:
        return await asyncio.to_thread(
            read_rollouts, run.store, run.name, "validation", step, run.held_out
        )
    except StoreError as error:
        get_run_logger().warning("The report compares with no earlier rollout: %s", error)
        return []
