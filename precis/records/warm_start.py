"""The ledger's record of a warm start: its demonstrations, and its effect on the groups."""

from precis.record import Amount, Count, Finite, Record, Step


class WarmStartRecord(Record):
    """The supervised training that made an adapter."""

    source: str
    """The source of the demonstrations: `best_of_n`, `teacher` or `file`."""
    scenarios: Count
    """Training scenarios set apart for it."""
    demonstrations: Count
    """Imitated rollouts."""
    left_out: dict[str, Count]
    """Demonstrations, or scenarios without one, left out, by cause."""
    reward: Finite | None
    """Mean reward of the imitated rollouts; None if none has a score."""
    usd: Amount = 0.0
    """The cost of collecting them (judge or teacher), as far as prices are known."""


class GroupVariance(Record):
    """The number of an adapter's groups with differing rewards: it can learn only from those."""

    step: Step
    """The adapter."""
    groups: Count
    """Sampled scenarios, each as often as in a step."""
    varied: Count
    """Groups with differing rewards."""
    dropped: dict[str, Count]
    """The other groups, by cause."""
    reward: Finite
    """Mean reward of the scored rollouts."""
    reward_std: Finite
    """Mean within-group standard deviation of the reward."""
    seconds: Amount
    """Its wall time."""
