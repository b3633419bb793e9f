"""The record of a step, and of a validation, from what happened in it."""

import math
import statistics
from collections.abc import Mapping, Sequence
from itertools import chain

from precis.config import RolloutsConfig
from precis.environments.protocol import Environment
from precis.errors import JudgeUnavailable
from precis.records.demonstrations import Demonstration
from precis.records.ledger import Ledger, Metric, StepRecord, Validation
from precis.records.nouns import REWARD, SUCCESS, Figure, default_figure
from precis.records.rollout import Rollout, Score
from precis.records.spend import Spend
from precis.records.warm_start import GroupVariance, WarmStartRecord
from precis.rollouts.filter import count_causes, reward_spread, rewards_of, split_groups
from precis.statistics.intervals import ratio_interval, share_interval
from precis.trainer.backend import SERVICE_USD
from precis.trainer.protocol import TrainedStep
from precis.training.batch import TrainingBatch


def step_record(
    step: int,
    batch: TrainingBatch,
    *,
    groups_added: int = 0,
    seconds: Mapping[str, float],
    judge: Spend,
    machine_usd: float = 0.0,
    machine_saved_usd: float = 0.0,
) -> StepRecord:
    """What the ledger will say of a step, as far as it is known before it is trained.

    Args:
        seconds: by phase; `gather` is what was waited for its rollouts.
    """
    sampled = batch.rollouts
    rollouts = sampled.rows
    everyone = list(chain.from_iterable(rollouts))
    return StepRecord(
        step=step,
        digest="",
        reward=statistics.fmean(rewards_of(everyone) or [0.0]),
        reward_std=reward_spread(rollouts),
        metrics=mean_metrics(everyone),
        groups_trained=len(batch.groups),
        groups_dropped=dict(batch.dropped),
        groups_added=groups_added,
        unscored=dict(count_causes(everyone)),
        trainer={},
        seconds=dict(seconds),
        staleness=step - sampled.adapter,
        overlapped_s=max(0.0, sampled.seconds - seconds.get("gather", 0.0)),
        judge=judge,
        machine_usd=machine_usd,
        machine_saved_usd=machine_saved_usd,
    )


def imitation_record(
    ledger: Ledger,
    made: WarmStartRecord,
    *,
    metrics: Mapping[str, float],
    seconds: Mapping[str, float],
    judge: Spend,
    machine_usd: float = 0.0,
    machine_saved_usd: float = 0.0,
) -> StepRecord:
    """What the ledger will say of a warm start, as far as it is known before it is trained.

    Args:
        ledger: which says what the groups of the adapter before it earned.
        metrics: of what is imitated.
    """
    before = ledger.variances[-1]
    return StepRecord(
        step=before.step,
        digest="",
        reward=before.reward,
        reward_std=before.reward_std,
        metrics=dict(metrics),
        groups_trained=0,
        groups_dropped={},
        unscored={},
        trainer={},
        seconds=dict(seconds),
        judge=judge,
        machine_usd=machine_usd,
        machine_saved_usd=machine_saved_usd,
        warm_start=made,
    )


def as_trained(
    record: StepRecord, digest: str, metrics: Mapping[str, float], **seconds: float
) -> StepRecord:
    """The record of a step once it is trained.

    Args:
        digest: of the groups that were trained on.
        metrics: the trainer's, with what a service has charged for it; those that are no finite
            numbers are left out, since JSON can't carry them.
        seconds: that the training took, by phase.
    """
    known = {
        "digest": digest,
        "trainer": {name: figure for name, figure in metrics.items() if _is_finite(figure)},
        "seconds": {**record.seconds, **seconds},
        "machine_usd": record.machine_usd + metrics.get(SERVICE_USD, 0.0),
    }
    return record.model_copy(update=known)


def as_remembered(trained: TrainedStep) -> StepRecord:
    """The record of a step from what its trainer remembers of it."""
    note = StepRecord.model_validate(trained.note)
    return as_trained(note, trained.digest, trained.result["metrics"])


def variance_of(
    step: int, rollouts: Sequence[Sequence[Rollout]], config: RolloutsConfig, seconds: float
) -> GroupVariance:
    """How many of an adapter's groups a step could learn from."""
    groups, dropped = split_groups(rollouts, config)
    earned = rewards_of(list(chain.from_iterable(rollouts)))
    return GroupVariance(
        step=step,
        groups=len(rollouts),
        varied=len(groups),
        dropped=dict(dropped),
        reward=statistics.fmean(earned or [0.0]),
        reward_std=reward_spread(rollouts),
        seconds=seconds,
    )


def _is_finite(figure: float | None) -> bool:
    """Whether a metric is a number; one that was not comes from the trainer as None."""
    return figure is not None and math.isfinite(figure)


def validation_of(
    step: int, rollouts: Sequence[Rollout], seconds: float, environment: Environment
) -> Validation:
    """How adapter `step` did on the held-out scenarios.

    Args:
        rollouts: one of each held-out scenario, in their order.

    Raises:
        JudgeUnavailable: not one of them has a score.
    """
    unscored = count_causes(rollouts)
    scores = [one.score if isinstance(one.score, Score) else None for one in rollouts]
    if not any(scores):
        what = environment.nouns.rollout
        raise JudgeUnavailable(f"No held-out {what} could be judged: {dict(unscored)}.")
    metrics: dict[str, Metric] = {}
    for figure in environment.figures or [default_figure(scores, environment.nouns)]:
        found = _measure(figure, scores)
        if found is not None:
            metrics[figure.name] = found
    parts = {name for one in environment.figures for name in (one.part, one.whole)}
    for name, value in mean_metrics(rollouts).items():
        if name not in parts:
            metrics.setdefault(name, Metric(value=value))
    return Validation(
        step=step,
        measure=next(iter(metrics)),
        metrics=metrics,
        seconds=seconds,
        unscored=dict(unscored),
    )


def _measure(figure: Figure, scores: Sequence[Score | None]) -> Metric | None:
    """A figure over the scenarios whose rollouts have it; None where none has."""
    parts = list(map(figure.part_of, scores))
    wholes = list(map(figure.whole_of, scores))
    known = [
        (part, whole)
        for part, whole in zip(parts, wholes, strict=True)
        if part is not None and whole
    ]
    if not known:
        return None
    if not figure.whole and figure.part not in (SUCCESS, REWARD):
        mean = statistics.fmean(part for part, _ in known)
        return Metric(value=mean, is_share=figure.is_share)
    if figure.part == SUCCESS:
        interval = share_interval(sum(part == 1 for part, _ in known), len(known))
    else:
        interval = ratio_interval([part for part, _ in known], [whole for _, whole in known])
    return Metric(
        value=interval.mean,
        low=interval.low,
        high=interval.high,
        is_share=figure.is_share,
        scores=tuple(parts),
        weights=tuple(
            None if part is None else whole for part, whole in zip(parts, wholes, strict=True)
        ),
        judge=figure.judge,
    )


def mean_metrics(rollouts: Sequence[Rollout | Demonstration]) -> dict[str, float]:
    """The mean of each metric, over the rollouts that have it."""
    values: dict[str, list[float]] = {}
    for one in rollouts:
        for name, value in one.metrics.items():
            values.setdefault(name, []).append(value)
    return {name: statistics.fmean(found) for name, found in values.items()}
