"""The record of a step, and of a validation, from what happened in it."""

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain

from precis.config import RolloutsConfig
from precis.errors import JudgeUnavailable
from precis.judge import Scored, Unscored, Verdict
from precis.records.ledger import Ledger, SecondOpinion, StepRecord, Validation
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
        words=statistics.fmean([one.words for one in scored] or [0.0]),
        groups_trained=len(batch.groups),
        groups_dropped=dict(batch.dropped),
        groups_added=groups_added,
        unscored=dict(count_causes(everyone)),
        disqualified=dict(Counter(one.disqualified for one in everyone if one.disqualified)),
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
    words: float,
    seconds: Mapping[str, float],
    judge: Spend,
    machine_usd: float = 0.0,
    machine_saved_usd: float = 0.0,
) -> StepRecord:
    """What the ledger will say of a warm start, as far as it is known before it is trained.

    Args:
        ledger: which says what the groups of the adapter before it earned.
        words: how long the summaries to imitate are, on average.
    """
    before = ledger.variances[-1]
    return StepRecord(
        step=before.step,
        digest="",
        reward=before.reward,
        reward_std=before.reward_std,
        words=words,
        groups_trained=0,
        groups_dropped={},
        unscored={},
        disqualified={},
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
    scored = [one.verdict for one in judged if isinstance(one.verdict, Scored)]
    unscored = count_causes(rollouts)
    if not scored:
        raise JudgeUnavailable(f"No held-out summary could be judged: {dict(unscored)}.")
    accuracy = ratio_interval([one.correct for one in scored], [one.asked for one in scored])
    return Validation(
        step=step,
        accuracy=accuracy.mean,
        low=accuracy.low,
        high=accuracy.high,
        words=statistics.fmean(one.words for one in judged),
        seconds=seconds,
        unscored=dict(unscored),
        correct=_correct([one.verdict for one in rollouts]),
        asked=tuple(one.document.asked for one in rollouts),
        copied=statistics.fmean(copied_share(one.text, one.document.text) for one in judged),
        prose=statistics.fmean(one.prose for one in judged),
        second=_second_opinion(rollouts, second_judge) if second_judge else None,
    )


def _second_opinion(rollouts: Sequence[Rollout], judge: str) -> SecondOpinion | None:
    """What a second judge says; None where it failed on all of them."""
    scored = [one.second for one in rollouts if isinstance(one.second, Scored)]
    if not scored:
        return None
    accuracy = ratio_interval([one.correct for one in scored], [one.asked for one in scored])
    return SecondOpinion(
        judge=judge,
        accuracy=accuracy.mean,
        low=accuracy.low,
        high=accuracy.high,
        correct=_correct([one.second for one in rollouts]),
    )


def _correct(verdicts: Sequence[Verdict | None]) -> tuple[int | None, ...]:
    return tuple(one.correct if isinstance(one, Scored) else None for one in verdicts)
