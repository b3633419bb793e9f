"""What each trial of a sweep may spend of the dollars that all have together."""

from collections.abc import Sequence

_USD_MIN = 0.01
"""A trial's budget is never nothing: with this one, a trial that is at its end is still ranked."""


def fair_share(budget_usd: float, spent: Sequence[float]) -> float:
    """The dollars up to which each trial may spend, so that all keep to the budget.

    Where one has spent more than an equal part, as when the sweep had fewer trials, the others
    share what is left.

    Args:
        spent: by each trial so far.
    """
    left = budget_usd
    sharing = sorted(spent)
    while sharing and sharing[-1] > left / len(sharing):
        left -= sharing.pop()
    return max(left / len(sharing), _USD_MIN) if sharing else _USD_MIN
