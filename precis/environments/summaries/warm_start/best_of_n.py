"""The best of several summaries, by the judge: what a policy can imitate without a teacher."""

from collections.abc import Sequence

from precis.environments.summaries.warm_start.demonstrations import Demonstration
from precis.records.rollout import Rollout


def choose_best(row: Sequence[Rollout]) -> Demonstration:
    """The summary of a document that earned most; of several, the first.

    One that earned nothing is no example: the document is left out.
    """
    document_id = row[0].scenario.id
    best: Rollout | None = None
    most = 0.0
    for rollout in row:
        earned = _earned(rollout)
        if earned is not None and earned > most:
            best = rollout
            most = earned
    if best is not None and best.calls:
        return Demonstration(
            document_id=document_id,
            summary=best.text,
            tokens=best.calls[-1].token_ids,
            reward=most,
        )
    scored = any(rollout.reward is not None for rollout in row)
    return Demonstration(
        document_id=document_id, cause="nothing_earned" if scored else "not_scored"
    )


def _earned(rollout: Rollout) -> float | None:
    """The share of the questions; where there are none, the reward."""
    asked = rollout.metrics.get("asked")
    return rollout.metrics["correct"] / asked if asked else rollout.reward
