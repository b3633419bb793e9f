"""The warm start: rollouts to imitate, the training on them, and its effect on the groups."""

import asyncio
import logging
import statistics
import time
from collections.abc import Sequence
from itertools import chain

from precis.benchmark.teacher import teacher_of
from precis.config import WarmStartConfig
from precis.llm.budget import Budget
from precis.processes.kill_points import reached
from precis.records.demonstrations import Demonstration
from precis.records.ledger import SERVICE_USD, StepRecord
from precis.records.rollout import Rollout, Scenario
from precis.records.warm_start import GroupVariance
from precis.rollouts.filter import mean_metrics, reward_spread, rewards_of, split_groups
from precis.rollouts.sample import draw_batch
from precis.training.demonstrations import (
    DemonstrationJournal,
    record_of,
    sft_options,
    trajectories,
)
from precis.training.run import Run
from precis.training.stages import as_trained, sample_scenarios

_log = logging.getLogger(__name__)

BATCH = 16
"""Scenarios whose demonstrations are collected and kept together."""


async def measure_groups(run: Run, step: int) -> GroupVariance:
    """Sample adapter `step` as a step does, and count the groups whose rewards differ.

    The scenarios are the same before and after a warm start: the first that steps draw.
    """
    start = time.perf_counter()
    settings = run.config.rollouts
    count = min(_settings(run).measured_scenarios, len(run.drawn))
    scenarios = draw_batch(run.drawn, run.config.seed, 0, count)
    rows = await _sample(run, step, scenarios, settings.rollouts_per_group)
    reached("groups measured", step)
    groups, dropped = split_groups(rows, settings)
    variance = GroupVariance(
        step=step,
        groups=len(rows),
        varied=len(groups),
        dropped=dict(dropped),
        reward=statistics.fmean(rewards_of(list(chain.from_iterable(rows))) or [0.0]),
        reward_std=reward_spread(rows),
        seconds=time.perf_counter() - start,
    )
    spend = run.unbooked
    await run.write_ledger(run.ledger.add_variance(variance, spend.usd), spend)
    _log.info(
        "Of %d groups of adapter %d, %d have rewards that differ.",
        variance.groups,
        step,
        variance.varied,
    )
    return variance


async def collect_demonstrations(
    run: Run, journal: DemonstrationJournal, scenarios: Sequence[Scenario]
) -> None:
    """Have rollouts of some scenarios made, by a teacher or the policy itself, and keep those to
    imitate; a BudgetReached says that the teacher's next answer might exceed the budget."""
    settings = _settings(run)
    environment = run.environment
    teacher = teacher_of(run.config)
    if teacher is not None:
        environment = environment.unjudged()
        left = None if run.config.budget_usd is None else max(0.0, run.config.budget_usd - run.usd)
        budget = Budget(left)
        try:
            answered = await teacher.attempt(
                environment, scenarios, run.recorder, run.store, budget
            )
        finally:
            run.taught += budget.spend
        rows = [[one] for one in answered]
    else:
        rows = await _sample(run, 0, scenarios, settings.samples)
    reached("demonstrations collected", 0)
    shown = [environment.demonstrate(row, settings.reward_min) for row in rows]
    await book(run, journal, shown)


async def imitate(run: Run, journal: DemonstrationJournal) -> StepRecord:
    """Train adapter 0 to adapter 1, by imitation; a repeat returns the stored result. A ConfigError
    says that there is nothing to imitate."""
    assert run.warm_start is not None
    warm_start = run.warm_start
    shown = warm_start.given or journal.all
    made = record_of(shown, run.config, len(warm_start.scenarios), journal.usd)
    before = run.ledger.variances[-1]
    record = StepRecord(
        step=before.step,
        digest="",
        reward=before.reward,
        reward_std=before.reward_std,
        metrics=mean_metrics([one for one in shown if not one.cause]),
        groups_trained=0,
        groups_dropped={},
        unscored={},
        trainer={},
        seconds=run.stopwatch.seconds,
        judge=run.unbooked,
        machine_usd=run.trainer.meter.unbooked_usd,
        machine_saved_usd=run.trainer.meter.unbooked_saved_usd,
        warm_start=made,
    )
    run.described = record
    reached("before training", record.step)
    start = time.perf_counter()
    result = await run.trainer.client.train_sft(
        run.model,
        trajectories(shown),
        step=record.step,
        run=run.ledger.run_id,
        note=record.model_dump(mode="json"),
        **sft_options(run.config, made.demonstrations),
    )
    seconds = time.perf_counter() - start
    reached("step trained", record.step)
    _log.info(
        "Warm start: %d demonstrations imitated, %s left out.",
        made.demonstrations,
        made.left_out or "none",
    )
    run.service_usd = result.metrics.get(SERVICE_USD, 0.0)
    return as_trained(record, result.digest, result.metrics, train=seconds)


async def book(
    run: Run, journal: DemonstrationJournal, demonstrations: Sequence[Demonstration]
) -> None:
    """Keep the collected demonstrations, and book their cost."""
    await run.lease.check()
    usd = run.unbooked.usd
    # The cost first: demonstrations can be collected again from kept replies.
    await run.book_rest()
    await asyncio.to_thread(journal.add, demonstrations, usd)
    reached("demonstrations kept", 0)


async def _sample(
    run: Run, step: int, scenarios: Sequence[Scenario], each: int
) -> list[list[Rollout]]:
    settings = run.config.rollouts.model_copy(update={"rollouts_per_group": each})
    return await sample_scenarios(run, step, step, scenarios, settings)


def _settings(run: Run) -> WarmStartConfig:
    assert run.config.warm_start is not None
    return run.config.warm_start
