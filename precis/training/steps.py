"""The record of a step, and of a validation, from what happened in it."""

import math
import statistics
from collections.abc import Mapping, Sequence
from itertools import chain

from precis.config import RolloutsConfig
from precis.errors import JudgeUnavailable
from precis.judge import Scored, Unscored, Verdict
from precis.records.ledger import Ledger, Metric, StepRecord, Validation
from precis.records.spend import Spend
from precis.records.warm_start import GroupVariance, WarmStartRecord
from precis.sampling.rollouts import Rollout, count_causes, reward, reward_spread, split_groups
from precis.statistics.intervals import ratio_interval
from precis.text import copied_share
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
    scored = [one for one in everyone if not isinstance(one.verdict, Unscored)]
    return StepRecord(
        step=step,
        digest="",
        reward=statistics.fmean(list(map(reward, scored)) or [0.0]),
        reward_std=reward_spread(rollouts),
        metrics=mean_metrics([one.metrics for one in scored]),
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
    earned = []
    for row in rollouts:
        earned += [reward(one) for one in row if not isinstance(one.verdict, Unscored)]
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
    step: int, rollouts: Sequence[Rollout], seconds: float, second_judge: str = ""
) -> Validation:
    """How adapter `step` did on the held-out documents.

    Args:
        rollouts: one of each held-out document, in their order.
        second_judge: the model whose second verdicts they carry, if they do.

    Raises:
        JudgeUnavailable: not one of them could be judged.
    """
    judged = [one for one in rollouts if isinstance(one.verdict, Scored)]
    unscored = count_causes(rollouts)
    if not judged:
        raise JudgeUnavailable(f"No held-out summary could be judged: {dict(unscored)}.")
    metrics = {"accuracy": accuracy_of([one.verdict for one in rollouts])}
    if any(isinstance(one.second, Scored) for one in rollouts):
        metrics["second_accuracy"] = accuracy_of([one.second for one in rollouts], second_judge)
    words = statistics.fmean(one.words for one in judged)
    copied = statistics.fmean(copied_share(one.text, one.document.text) for one in judged)
    prose = statistics.fmean(one.prose for one in judged)
    described = {
        "words": Metric(value=words),
        "copied": Metric(value=copied, is_share=True),
        "prose": Metric(value=prose, is_share=True),
    }
    return Validation(
        step=step,
        measure="accuracy",
        metrics={**metrics, **described},
        seconds=seconds,
        unscored=dict(unscored),
    )


def accuracy_of(verdicts: Sequence[Verdict | None], judge: str = "") -> Metric:
    """The share of the questions that a judge could answer, over the documents that it scored."""
    scored = [one if isinstance(one, Scored) else None for one in verdicts]
    scores = tuple(None if one is None else one.correct for one in scored)
    weights = tuple(None if one is None else one.asked for one in scored)
    known = [one for one in scored if one is not None]
    accuracy = ratio_interval([one.correct for one in known], [one.asked for one in known])
    return Metric(
        value=accuracy.mean,
        low=accuracy.low,
        high=accuracy.high,
        is_share=True,
        scores=scores,
        weights=weights,
        judge=judge,
    )


def mean_metrics(rollouts: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The mean of each metric, over the rollouts that have it."""
    values: dict[str, list[float]] = {}
    for metrics in rollouts:
        for name, value in metrics.items():
            values.setdefault(name, []).append(value)
    return {name: statistics.fmean(found) for name, found in values.items()}
