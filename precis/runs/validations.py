"""The changes between two validations of a run, paired over the held-out scenarios."""

from collections.abc import Sequence

from precis.records.ledger import Metric, Validation
from precis.statistics.intervals import CONFIDENCE, DOCUMENTS_MIN, Interval, paired_interval

_GAP_CONFIDENCE = 0.99


def gain(before: Validation, after: Validation, among: int = 1) -> Interval | None:
    """Return the gain of the score, over the scenarios that have one in both; None where those are
    too few to say.

    `among` is the number of validations of which `after` is the best: its interval is wider, since
    the best of several is above by chance more often (Bonferroni).
    """
    return _difference(after.score, before.score, 1 - (1 - CONFIDENCE) / among)


def last_gain(validations: Sequence[Validation], now: Validation) -> int:
    """Return the step of the newest validation that gained, beyond chance, over the last such one.

    So small gains add up. With too few scenarios to decide, any validation counts as a gain;
    validations from the step of `now` on are ignored.
    """
    earlier = {}
    since = None
    for one in validations:
        if one.step < now.step:
            earlier[one.step] = one
            since = one.last_gain
    if since is None:
        return now.step
    found = gain(earlier[since], now)
    return now.step if found is None or found.low > 0 else since


def parted(validations: Sequence[Validation]) -> str | None:
    """Return a sentence if reward and second judge diverge by the newest validation, else None.

    It is compared with the first, and with the second judge's best since: the reward's judge sees
    a gain, the second one none, by 95 % intervals, and the gap between the two is beyond chance by
    a 99 % interval, since a run is checked often.
    """
    now = validations[-1] if validations else None
    if now is None or now.second is None:
        return None
    judge = now.second.judge
    earlier = [one for one in validations[:-1] if one.second and one.second.judge == judge]
    if not earlier:
        return None
    best = max(earlier, key=lambda one: one.second.value if one.second else 0.0)
    return _diverge(earlier[0], now) or _diverge(best, now)


def _diverge(before: Validation, now: Validation) -> str | None:
    if before.second is None or now.second is None:
        return None
    first = _difference(now.score, before.score)
    if first is None or first.low <= 0:
        return None
    second = _difference(now.second, before.second)
    if second is None or second.low > 0:
        return None
    gap = _difference(
        _sum(now.score, before.second), _sum(before.score, now.second), _GAP_CONFIDENCE
    )
    if gap is None or gap.low <= 0:
        return None
    return (
        f"The reward and the second judge diverge: from step {before.step} to {now.step} the "
        f"reward's judge sees {_points(first)}, and {now.second.judge} {_points(second)}. "
        "The policy may be learning what pleases the first alone: read some of what it writes, "
        "and see how long that is and how much of it is copied."
    )


def _difference(after: Metric, before: Metric, confidence: float = CONFIDENCE) -> Interval | None:
    """Return the difference over the scenarios with both scores; None for too few, or for
    others."""
    later = []
    earlier = []
    wholes = []
    if len(after.scores) != len(before.scores):
        return None
    known = zip(after.scores, before.scores, after.weights, before.weights, strict=True)
    for gained, had, weight, its_weight in known:
        if gained is None or had is None or weight is None or its_weight is None:
            continue
        if weight != its_weight:
            return None
        later.append(gained)
        earlier.append(had)
        wholes.append(weight)
    if len(wholes) < DOCUMENTS_MIN:
        return None
    return paired_interval(later, earlier, wholes, confidence=confidence)


def _sum(one: Metric, other: Metric) -> Metric:
    """Each scenario's two scores together; None where one is missing."""
    scores = []
    for a, b in zip(one.scores, other.scores, strict=True):
        scores.append(None if a is None or b is None else a + b)
    return one.model_copy(update={"scores": tuple(scores)})


def _points(interval: Interval) -> str:
    more = "more" if interval.mean >= 0 else "fewer"
    size = 100 * abs(interval.mean)
    return f"{size:.1f} points {more} ({100 * interval.low:+.1f} to {100 * interval.high:+.1f})"
