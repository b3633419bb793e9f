"""The warm start: rollouts to imitate, the training on them, and its effect on the groups."""

import asyncio
import logging
import math
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import art
from art.trajectories import History
from art.utils.sft import create_lr_schedule
from pydantic import Field, ValidationError

from precis.benchmark.client import ContenderClient
from precis.benchmark.contender import ContenderSpec, hosted_contender
from precis.benchmark.measure import measure
from precis.config import TrainConfig
from precis.environment import Variables
from precis.environments.protocol import Environment
from precis.errors import BudgetReached, ConfigError, RolloutError, StoreError
from precis.llm.budget import Budget
from precis.processes.kill_points import reached
from precis.record import Amount, Record
from precis.records.ledger import StepRecord
from precis.records.rollout import UNJUDGED, Rollout, Scenario, Unscored
from precis.records.samples import Sampled, with_tokens
from precis.records.warm_start import Demonstration, GroupVariance, WarmStartRecord
from precis.report.wording import causes
from precis.rollouts.filter import mean_metrics, reward_spread, rewards_of, split_groups
from precis.rollouts.sample import draw_batch
from precis.store import Store
from precis.store.files import read_files
from precis.store.kept import KeptRecords
from precis.store.protocol import OwnObject
from precis.training.run import Run
from precis.training.stages import learn, sample_scenarios

BATCH = 16
"""Scenarios whose demonstrations are collected and kept together."""
_WARMUP_SHARE = 0.1
"""The share of the updates over which the learning rate rises, as in ART."""

_log = logging.getLogger(__name__)


class Collected(Record):
    """Demonstrations, of one batch or of all."""

    demonstrations: tuple[Demonstration, ...] = Field(())
    usd: Amount = 0.0
    """The cost of collecting them."""


class DemonstrationJournal:
    """The demonstrations of a run, in the order in which they were collected.

    Each batch is in the store, as an object of its own, before the next begins, so that a killed
    run asks and pays for nothing again. A run that has lost the lease can't write any more.
    """

    def __init__(self, store: Store, model: str, identity: str) -> None:
        self.kept = Collected()
        self._store = store
        # Demonstrations of other settings are not this run's.
        self._folder = f"{model}/warm-start/{identity}/"
        self._unkept_usd = 0.0
        keys = store.keys(self._folder)
        for key, data in read_files(store, keys).items():
            try:
                self._include(Collected.model_validate_json(data))
            except ValidationError as error:
                raise StoreError(
                    f"{store.url}/{key} can't be read as the demonstrations of a warm start.",
                    f"Delete {store.url}/{self._folder}: they are collected anew.",
                ) from error
        # Not their number: a damaged one may have been deleted.
        self._batches = int(Path(keys[-1]).stem) + 1 if keys else 0
        self._next = self._begin_batch()

    def missing(self, scenarios: Sequence[Scenario]) -> list[Scenario]:
        known = {one.scenario_id for one in self.kept.demonstrations}
        return [scenario for scenario in scenarios if scenario.id not in known]

    def add(self, more: Sequence[Demonstration], usd: float = 0.0) -> None:
        """Put a batch into the store, which cost `usd`; StoreConflict where another run wrote."""
        # Counted even if the write fails: a second try pays for nothing again.
        self._unkept_usd += usd
        batch = Collected(demonstrations=tuple(more), usd=self._unkept_usd)
        self._next.write(batch.model_dump_json().encode())
        self._include(batch)
        self._unkept_usd = 0.0
        self._batches += 1
        self._next = self._begin_batch()

    def _include(self, batch: Collected) -> None:
        demonstrations = (*self.kept.demonstrations, *batch.demonstrations)
        self.kept = Collected(demonstrations=demonstrations, usd=self.kept.usd + batch.usd)

    def _begin_batch(self) -> OwnObject:
        return OwnObject(self._store, f"{self._folder}{self._batches:05d}.json", None)


async def measure_groups(run: Run, step: int) -> None:
    """Sample adapter `step` as a step does, and book the number of groups whose rewards differ. The
    scenarios are the same before and after a warm start: the first that steps draw."""
    start = time.perf_counter()
    settings = run.config.rollouts
    assert run.config.warm_start is not None
    count = min(run.config.warm_start.measured_scenarios, len(run.drawn))
    scenarios = draw_batch(run.drawn, run.config.seed, 0, count)
    rows = await sample_scenarios(run, step, step, scenarios, settings)
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


async def collect_demonstrations(
    run: Run, journal: DemonstrationJournal, scenarios: Sequence[Scenario]
) -> None:
    """Have rollouts of some scenarios made, by a teacher or the policy itself, and keep those to
    imitate; a BudgetReached says that the teacher's next answer might exceed the budget."""
    settings = run.config.warm_start
    assert settings is not None
    environment = run.environment
    teacher = teacher_of(run.config)
    try:
        if teacher is not None:
            environment = environment.unjudged()
            rows = [[one] for one in await ask_teacher(run, teacher, environment, scenarios)]
        else:
            each = {"rollouts_per_group": settings.samples}
            sampling = run.config.rollouts.model_copy(update=each)
            rows = await sample_scenarios(run, 0, 0, scenarios, sampling)
    except (BudgetReached, RolloutError):
        # Some of them were paid for, and are kept.
        await _book(run, journal, ())
        raise
    reached("demonstrations collected", 0)
    shown = list(map(environment.demonstrate, rows))
    await _book(run, journal, shown)


def teacher_of(config: TrainConfig) -> ContenderSpec | None:
    """Return the teacher of a run, with its key from the environment; None if it has none."""
    if config.warm_start is None or config.warm_start.teacher is None:
        return None
    try:
        return hosted_contender(config.warm_start.teacher, Variables().keys())
    except ConfigError as error:
        raise ConfigError(f"warm_start.teacher: {error}") from error


async def ask_teacher(
    run: Run, teacher: ContenderSpec, environment: Environment, scenarios: Sequence[Scenario]
) -> list[Rollout]:
    """Return the teacher's rollout of each scenario, from kept answers where the store has them.

    Raises:
        BudgetReached: the next answer might exceed the budget; paid answers are kept.
        RolloutError: too many rollouts failed.
        StoreError: an answer can't be stored.
    """
    settings = run.config.rollouts
    budget = Budget(run.usd_left)
    kept = KeptRecords(run.store)
    await kept.open()
    try:
        async with ContenderClient(teacher, settings, budget, kept) as client:
            attempts = await measure(run.recorder, client, environment, scenarios)
    finally:
        run.taught += budget.spend
    failures: list[Unscored] = []
    for attempt in attempts:
        score = attempt.rollout.score
        if isinstance(score, Unscored) and score.cause != UNJUDGED:
            failures.append(score)
    nouns = environment.nouns
    failed = Counter(failure.cause for failure in failures)
    if "budget" in failed:
        raise BudgetReached(
            f"The next {nouns.rollout} of the teacher {teacher.contender} might lead past "
            "budget_usd; what it has answered is kept.",
            "Raise budget_usd and start the run again to continue.",
        )
    asked = len(scenarios)
    if asked and len(failures) / asked > settings.unscored_share_max:
        raise RolloutError(
            f"The teacher {teacher.contender} ended only {asked - len(failures)} of {asked} "
            f"{nouns.rollouts} ({causes(failed)}). The first failure: {failures[0].detail}"
        )
    return [attempt.rollout for attempt in attempts]


async def _book(
    run: Run, journal: DemonstrationJournal, demonstrations: Sequence[Demonstration]
) -> None:
    """Keep the collected demonstrations, and book their cost."""
    await run.lease.check()
    spend = run.unbooked
    # The cost first: demonstrations can be collected again from kept replies.
    if spend.usd > 0:
        await run.write_ledger(run.ledger.charge(spend.usd), spend)
    await asyncio.to_thread(journal.add, demonstrations, spend.usd)
    reached("demonstrations kept", 0)


async def imitate(run: Run, journal: DemonstrationJournal) -> StepRecord:
    """Train adapter 0 to adapter 1, by imitation; a repeat returns the stored result. A ConfigError
    says that there is nothing to imitate."""
    settings, warm_start = run.config.warm_start, run.warm_start
    assert settings is not None and warm_start is not None
    collected = warm_start.given or journal.kept.demonstrations
    shown = [one for one in collected if not one.cause]
    left_out = Counter(one.cause for one in collected if one.cause)
    if not shown:
        raise ConfigError(
            f"The warm start has nothing to imitate ({causes(left_out) or 'no scenario'}).",
            "Give it another source, more scenarios or more samples, or leave warm_start out.",
        )
    rewards = [one.reward for one in shown if one.reward is not None]
    before = run.ledger.variances[-1]
    record = StepRecord(
        step=before.step,
        digest="",
        reward=before.reward,
        reward_std=before.reward_std,
        metrics=mean_metrics(shown),
        groups_trained=0,
        groups_dropped={},
        unscored={},
        trainer={},
        seconds=run.stopwatch.seconds,
        judge=run.unbooked,
        machine_usd=run.trainer.meter.unbooked_usd,
        machine_saved_usd=run.trainer.meter.unbooked_saved_usd,
        described_at=time.time(),
        warm_start=WarmStartRecord(
            source=settings.source,
            scenarios=len(warm_start.scenarios),
            demonstrations=len(shown),
            left_out=left_out,
            reward=statistics.fmean(rewards) if rewards else None,
            usd=journal.kept.usd,
        ),
    )
    run.described = record
    trajectories = list(map(trajectory_of, shown))
    options = sft_options(run.config, len(shown))
    trained = await learn(run, record, run.trainer.client.train_sft, trajectories, options)
    _log.info(
        "Warm start: %d demonstrations imitated, %s left out.",
        len(shown),
        dict(left_out) or "none",
    )
    return trained


def trajectory_of(demonstration: Demonstration) -> art.Trajectory:
    """Return a demonstration as a trajectory; the policy's own answers are choices with tokens."""
    histories = []
    for conversation in demonstration.conversations:
        items: list[Any] = []
        for place, message in enumerate(conversation.messages):
            tokens = conversation.token_ids.get(place)
            if tokens is None:
                items.append(message)
            else:
                sampled = Sampled((), tokens, [0.0] * len(tokens))
                choice = {"index": 0, "finish_reason": "stop", "message": message}
                items.append(with_tokens(choice, sampled))
        tools: Any = list(conversation.tools) or None
        history = History(messages_and_choices=[], tools=tools)
        # ART's validation would drop what its types do not know.
        history.messages_and_choices = items
        histories.append(history)
    first, *others = histories
    trajectory = art.Trajectory(
        messages_and_choices=[], tools=first.tools, additional_histories=others
    )
    trajectory.messages_and_choices = first.messages_and_choices
    return trajectory


def sft_options(config: TrainConfig, demonstrations: int) -> dict[str, Any]:
    """Return the options of a backend's `train_sft` for so many demonstrations."""
    settings = config.warm_start
    assert settings is not None
    updates = settings.epochs * math.ceil(demonstrations / settings.batch_size)
    # The schedule ends with a rate of 0, by which nothing is learned: it is left out.
    rates = create_lr_schedule(
        updates + 1,
        settings.learning_rate or config.trainer.sft_learning_rate,
        warmup_steps=int(_WARMUP_SHARE * updates),
    )
    return {"batch_size": settings.batch_size, "learning_rates": rates[:-1]}
