"""The record of a step, and of a validation, from what happened in it."""

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain

from precis.errors import JudgeUnavailable
from precis.judge import Scored, Unscored
from precis.records.ledger import StepRecord, Validation
from precis.records.spend import Spend
from precis.sampling.rollouts import Rollout, count_causes, reward, reward_spread
from precis.statistics.intervals import ratio_interval
from precis.trainer.protocol import TrainedStep


def step_record(
    step: int,
    rollouts: Sequence[Sequence[Rollout]],
    *,
    groups_trained: int,
    groups_dropped: Counter[str],
    seconds: Mapping[str, float],
    judge: Spend,
    machine_usd: float = 0.0,
) -> StepRecord:
    """What the ledger will say of a step, as far as it is known before it is trained."""
    everyone = list(chain.from_iterable(rollouts))
    scored = [one for one in everyone if not isinstance(one.verdict, Unscored)]
    return StepRecord(
        step=step,
        digest="",
        reward=statistics.fmean(list(map(reward, scored)) or [0.0]),
        reward_std=reward_spread(rollouts),
        words=statistics.fmean([one.words for one in scored] or [0.0]),
        groups_trained=groups_trained,
        groups_dropped=dict(groups_dropped),
        unscored=dict(count_causes(everyone)),
        disqualified=dict(Counter(one.disqualified for one in everyone if one.disqualified)),
        trainer={},
        seconds=dict(seconds),
        judge=judge,
        machine_usd=machine_usd,
    )


def as_trained(
    record: StepRecord, digest: str, metrics: Mapping[str, float], **seconds: float
) -> StepRecord:
    """The record of a step once it is trained.

    Args:
        digest: of the groups that were trained on.
        metrics: the trainer's; those that are no finite numbers are left out, since JSON can't
            carry them.
        seconds: that the training took, by phase.
    """
    known = {
        "digest": digest,
        "trainer": {name: figure for name, figure in metrics.items() if _is_finite(figure)},
        "seconds": {**record.seconds, **seconds},
    }
    return record.model_copy(update=known)


def as_remembered(trained: TrainedStep) -> StepRecord:
    """The record of a step from what its trainer remembers of it."""
    note = StepRecord.model_validate(trained.note)
    return as_trained(note, trained.digest, trained.result["metrics"])


def _is_finite(figure: float | None) -> bool:
    """Whether a metric is a number; one that was not comes from the trainer as None."""
    return figure is not None and math.isfinite(figure)


def validation_of(step: int, rollouts: Sequence[Rollout], seconds: float) -> Validation:
    """How adapter `step` did on the held-out documents.

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
    )
