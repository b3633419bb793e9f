"""How figures are written, in every report alike."""

import math
from collections.abc import Mapping, Sequence

from precis.records.ledger import Ledger, StepRecord
from precis.statistics.intervals import Difference, Interval
from precis.statistics.standings import Contender


def name(contender: Contender) -> str:
    """A contender's name for people; step 0 is the policy before any training."""
    if contender.step is None:
        return contender.model
    return f"{contender.model}, step {contender.step}" if contender.step else "untrained start"


def heading(name: str) -> str:
    """A metric's name as a column's heading: `over_length` is `Over length`."""
    words = name.replace("_", " ")
    return words[:1].upper() + words[1:]


def percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


def bounds(interval: Interval) -> str:
    return f"{interval.low:.1%} to {interval.high:.1%}"


def points(difference: Interval) -> str:
    """A difference of two shares, in percentage points."""
    return f"{100 * difference.mean:+.1f} points"


def point_bounds(difference: Interval) -> str:
    return f"{100 * difference.low:+.1f} to {100 * difference.high:+.1f}"


def chance(difference: Difference) -> str:
    """The p-value as it is usually written."""
    return "p < 0.001" if difference.p_value < 0.001 else f"p = {difference.p_value:.3f}"


def ahead(first: Contender, second: Contender, found: Difference) -> str:
    """A comparison as a sentence."""
    gap = 100 * found.accuracy.mean
    side = "ahead of" if gap >= 0 else "behind"
    return (
        f"{name(first)} is {abs(gap):.1f} points {side} {name(second)} on {found.documents} "
        f"documents: a difference of {point_bounds(found.accuracy)} (95% interval; corrected "
        f"{chance(found)})."
    )


def causes(unscored: Mapping[str, int]) -> str:
    """`2 timeout, 1 rate_limited`; empty where nothing is missing."""
    return ", ".join(f"{count} {cause}" for cause, count in sorted(unscored.items()))


def number(value: float | None) -> str:
    """Four digits that matter, without a tail of zeros."""
    return "" if value is None else f"{value:.4g}"


def dollars(cost: float) -> str:
    """`$12`, `$1.20`, `$0.012`; nothing is `free`."""
    if cost == 0:
        return "free"
    digits = 0 if cost >= 10 else max(2, 1 - math.floor(math.log10(cost)))
    return f"${cost:,.{digits}f}".removesuffix(".00")


def overlap(steps: Sequence[StepRecord]) -> str:
    """How many steps were sampled from an older adapter than their own, and what it saved."""
    stale = [step for step in steps if step.staleness]
    saved = sum(step.overlapped_s for step in stale)
    return f"{len(stale)} of {len(steps)} steps, {number(saved)} s of it beside the training"


def warm_start(ledger: Ledger) -> str:
    """What was imitated, and what became of the groups; empty without a warm start."""
    parts = []
    made = ledger.steps[0].warm_start if ledger.steps else None
    if made is not None:
        left_out = f", left out {causes(made.left_out)}" if made.left_out else ""
        earned = "" if made.reward is None else f" with a mean reward of {number(made.reward)}"
        cost = f", for ${made.usd:,.2f}" if made.usd else ""
        parts.append(f"{made.summaries} summaries imitated ({made.source}){earned}{left_out}{cost}")
    for one in ledger.variances:
        when = "after" if one.step else "before"
        parts.append(f"{one.varied} of {one.groups} groups with rewards that differ {when} it")
    return "; ".join(parts)
