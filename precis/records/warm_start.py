"""The ledger's record of a warm start: what was imitated, and what it did to the groups."""

from precis.record import Amount, Count, Finite, Record, Step


class WarmStartRecord(Record):
    """The supervised training that made an adapter."""

    source: str
    """The source of the demonstrations: `best_of_n`, `teacher` or `file`."""
    scenarios: Count
    """Training scenarios that were set apart for it."""
    demonstrations: Count
    """Rollouts that were imitated."""
    left_out: dict[str, Count]
    """Demonstrations, or scenarios without one, that were not imitated, by cause."""
    reward: Finite | None
    """Mean reward of the imitated rollouts; None where none has a score."""
    usd: Amount = 0.0
    """The cost of collecting them, judge or teacher, as far as its price is known."""


class GroupVariance(Record):
    """The number of an adapter's groups whose rewards differ: only from those it can learn."""

    step: Step
    """The adapter."""
    groups: Count
    """Scenarios that were sampled, each as often as in a step."""
    varied: Count
    """Groups whose rewards differ."""
    dropped: dict[str, Count]
    """The other groups, by cause."""
    reward: Finite
    """Mean reward of the scored rollouts."""
    reward_std: Finite
    """Mean within-group standard deviation of the reward."""
    seconds: Amount
    """Wall time it took."""
