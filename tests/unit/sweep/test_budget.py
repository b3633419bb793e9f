"""How a sweep's trials share its budget."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precis.sweep.budget import fair_share

DOLLARS = st.floats(0, 1000)


@pytest.mark.parametrize(
    ("spent", "share"),
    [
        ([0, 0, 0, 0], 2.5),
        ([1, 0, 0, 2], 2.5),
        ([5, 5, 0, 0], 0.01),  # two had all of it, before there were more
        ([4, 4, 0, 0], 1),
        ([6, 1, 0, 0], 4 / 3),
    ],
)
def test_what_a_trial_had_more_than_its_share_the_others_have_less(
    spent: list[float], share: float
) -> None:
    assert fair_share(10, spent) == pytest.approx(share)


@given(st.floats(1, 1000), st.lists(DOLLARS, min_size=1, max_size=20))
def test_all_together_keep_to_the_budget_unless_it_is_spent_already(
    budget: float, spent: list[float]
) -> None:
    share = fair_share(budget, spent)
    at_most = sum(max(share, usd) for usd in spent)
    assert at_most <= max(budget, sum(spent)) + 0.01 * len(spent) + 1e-6
