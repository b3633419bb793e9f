"""The wording of figures, common to all reports."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from precis.records.ledger import Ledger
from precis.records.nouns import Figure, Nouns
from precis.statistics.intervals import Difference, Interval
from precis.statistics.standings import Contender, Standing
from precis.text import write_dollars, write_number

_CAUSES = {"no_reference": "without an attempt of the first validation to compare with"}
"""Descriptions of causes whose names are not clear."""


@dataclass(frozen=True)
class Words:
    """The words and figures of a benchmark's report.

    Attributes:
        measure: the measure of contenders: `accuracy`, `win rate`.
        is_share: whether it is between 0 and 1, and shown as a percentage.
        columns: further figures of the table; None takes the mean of every metric.
        method: a description of the measure, in a sentence or two.
        caveat: a warning that applies to all figures, or "".
        disqualifiers: metrics that give the reason for a reward of 0.
    """

    nouns: Nouns = field(default_factory=Nouns)
    measure: str = "accuracy"
    is_share: bool = True
    columns: Sequence[Figure] | None = None
    method: str = ""
    caveat: str = ""
    disqualifiers: Sequence[str] = ()

    def figure(self, value: float | None) -> str:
        return percent(value) if self.is_share else number(value)

    def bounds(self, interval: Interval) -> str:
        """Format the ends of an interval of the measure."""
        low, high = interval.ends
        return "no interval" if low is None else f"{self.figure(low)} to {self.figure(high)}"

    def interval(self, interval: Interval | None) -> str:
        """Format a value with its interval; empty for None."""
        if interval is None:
            return ""
        return f"{self.figure(interval.mean)} ({self.bounds(interval)})"

    def gap(self, difference: float) -> str:
        """Format a difference of the measure: percentage points of a share."""
        return f"{100 * difference:+.1f}" if self.is_share else f"{difference:+.3g}"

    def gap_bounds(self, difference: Interval) -> str:
        """Format the ends of the interval of a difference."""
        if difference.low == difference.high:
            return "no interval"
        return f"{self.gap(difference.low)} to {self.gap(difference.high)}"

    @property
    def unit(self) -> str:
        """The unit of a difference, written after its number."""
        return " points" if self.is_share else ""

    def ahead(self, first: Contender, second: Contender, found: Difference) -> str:
        """Return a comparison as a sentence."""
        mean = found.accuracy.mean
        side = "ahead of" if mean > 0 else "behind"
        gap = f"{self.gap(mean).lstrip('+-')}{self.unit} {side}" if mean else "level with"
        return (
            f"{name(first)} is {gap} {name(second)} on "
            f"{self.nouns.count(found.documents)}; 95 % interval of the difference: "
            f"{self.gap_bounds(found.accuracy)}; corrected {found.chance}."
        )


def name(contender: Contender) -> str:
    """Return a contender's name for people. Step 0 is untrained, or another run's checkpoint from
    which this one began."""
    if contender.step is None:
        return contender.model
    return f"{contender.model}, step {contender.step}" if contender.step else "the start"


def of_standing(standing: Standing) -> str:
    """Return a contender's name in a table, where it may be incomplete."""
    said = name(standing.contender)
    return said if standing.complete else f"{said} (incomplete)"


def heading(name: str) -> str:
    """Return a metric's name as a column's heading: `over_length` is `Over length`."""
    words = name.replace("_", " ")
    return words[:1].upper() + words[1:]


def percent(share: float | None) -> str:
    return "" if share is None else f"{share:.1%}"


def causes(unscored: Mapping[str, int]) -> str:
    """Return `2 timeout, 1 rate_limited`; empty if nothing is missing."""
    said = [f"{count} {_CAUSES.get(cause, cause)}" for cause, count in sorted(unscored.items())]
    return ", ".join(said)


def number(value: float | None) -> str:
    return "" if value is None else write_number(value)


def total(usd: float, *, is_lower_bound: bool) -> str:
    """Format a total: `$0.25`, or `$0.25, some at an unknown price`."""
    return f"{write_dollars(usd)}{', some at an unknown price' if is_lower_bound else ''}"


def spent(usd: float, *, is_lower_bound: bool, digits: int = 2) -> str:
    """Format dollars in a column of dollars: `0.25`, or `0.25 or more` if some calls have no
    price."""
    return f"{usd:.{digits}f}{' or more' if is_lower_bound else ''}"


def cost(standing: Standing) -> str:
    """Format the cost of a thousand of a contender's rollouts: `$1.20`, `at most $1.20`, `free`;
    empty if it is unknown."""
    usd = standing.usd_per_1000
    if not usd:
        return "" if usd is None else "free"
    return ("at most " if standing.is_bound else "") + write_dollars(usd)


def warm_start(ledger: Ledger) -> str:
    """Describe the demonstrations of a warm start, and its effect on the groups; empty without
    one."""
    parts = []
    made = ledger.steps[0].warm_start if ledger.steps else None
    if made is not None:
        left_out = f", left out {causes(made.left_out)}" if made.left_out else ""
        earned = "" if made.reward is None else f" with a mean reward of {number(made.reward)}"
        cost = f", for {write_dollars(made.usd)}" if made.usd else ""
        shown = f"{made.demonstrations} demonstrations imitated ({made.source})"
        parts.append(f"{shown}{earned}{left_out}{cost}")
    for one in ledger.variances:
        when = "after" if one.step else "before"
        others = f" (the others: {causes(one.dropped)})" if one.dropped else ""
        differ = f"{one.varied} of {one.groups} groups with rewards that differ"
        parts.append(f"{differ} {when} it{others}")
    return "; ".join(parts)
