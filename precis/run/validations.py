"""What became of a run between two validations, paired over the held-out documents."""

from collections.abc import Sequence
from dataclasses import dataclass

from precis.records.ledger import Validation
from precis.statistics.intervals import CONFIDENCE, DOCUMENTS_MIN, Interval, paired_interval

Correct = Sequence[int | None]

_GAP_CONFIDENCE = 0.99


@dataclass(frozen=True)
class Divergence:
    """The reward's judge sees a gain between two validations that a second judge does not.

    Attributes:
        since: the step of the earlier validation.
        step: of the later one.
        judge: the second judge's model.
        first: what the summaries gained by the reward's judge.
        second: by the second one, on the same documents.
    """

    since: int
    step: int
    judge: str
    first: Interval
    second: Interval

    def __str__(self) -> str:
        return (
            f"The reward and the second judge part ways: from step {self.since} to {self.step} the "
            f"reward's judge answers {_points(self.first)} of the questions, and {self.judge} "
            f"{_points(self.second)}. The policy may be learning what pleases the first alone: "
            "read some summaries, and see how long they are and how much of them is copied."
        )


def gain(before: Validation, after: Validation) -> Interval | None:
    """How much more of the questions is answered, over the documents that both were judged on.

    None where those are too few to say.
    """
    if before.asked != after.asked:
        return None
    return _difference(after.correct, before.correct, after.asked)


def last_gain(validations: Sequence[Validation], now: Validation) -> int:
    """The step of the newest validation that was better, beyond chance, than the last such one.

    Small gains add up: each validation is compared with the last that gained, and not with its
    neighbour. Where there are too few documents to say, any validation counts as a gain.

    Args:
        validations: the run's so far, in order.
        now: the one to judge; others from its step on are passed over.
    """
    earlier = [one for one in validations if one.step < now.step]
    since = earlier[-1].last_gain if earlier else None
    if since is None:
        return now.step
    before = next(one for one in earlier if one.step == since)
    found = gain(before, now)
    return now.step if found is None or found.low > 0 else since


def divergence(validations: Sequence[Validation]) -> Divergence | None:
    """Whether reward and second judge part ways at the newest validation.

    It is compared with the first, for a policy that went astray from the beginning, and with the
    one that the second judge liked best since, for one that did so later. Three things have to
    hold, over the documents: the reward's judge sees a gain, the second one sees none, both by 95 %
    intervals, and the gap between the two gains is beyond chance by one of 99 %, since a run is
    looked at often (`bench/divergence.py` says how often that is wrong).
    """
    now = validations[-1] if validations else None
    if now is None or now.second is None:
        return None
    judge = now.second.judge
    earlier = [one for one in validations[:-1] if one.second and one.second.judge == judge]
    if not earlier:
        return None
    best = max(earlier, key=lambda one: one.second.accuracy if one.second else 0.0)
    return _diverge(earlier[0], now) or _diverge(best, now)


def _diverge(before: Validation, now: Validation) -> Divergence | None:
    if before.second is None or now.second is None or before.asked != now.asked:
        return None
    asked = now.asked
    first = _difference(now.correct, before.correct, asked)
    if first is None or first.low <= 0:
        return None
    second = _difference(now.second.correct, before.second.correct, asked)
    if second is None or second.low > 0:
        return None
    gap = _difference(
        _sums(now.correct, before.second.correct),
        _sums(before.correct, now.second.correct),
        asked,
        _GAP_CONFIDENCE,
    )
    if gap is None or gap.low <= 0:
        return None
    return Divergence(before.step, now.step, now.second.judge, first, second)


def _difference(
    after: Correct, before: Correct, asked: Sequence[int], confidence: float = CONFIDENCE
) -> Interval | None:
    """The difference over the documents that have both counts; None for too few of them."""
    later = []
    earlier = []
    wholes = []
    for gained, had, whole in zip(after, before, asked, strict=True):
        if gained is not None and had is not None:
            later.append(gained)
            earlier.append(had)
            wholes.append(whole)
    if len(wholes) < DOCUMENTS_MIN:
        return None
    return paired_interval(later, earlier, wholes, confidence=confidence)


def _sums(one: Correct, other: Correct) -> list[int | None]:
    """Each document's two counts together; None where one is missing."""
    pairs = zip(one, other, strict=True)
    return [None if a is None or b is None else a + b for a, b in pairs]


def _points(interval: Interval) -> str:
    more = "more" if interval.mean >= 0 else "fewer"
    size = 100 * abs(interval.mean)
    return f"{size:.1f} points {more} ({100 * interval.low:+.1f} to {100 * interval.high:+.1f})"
