"""pass@k of sampled attempts."""

import json
from itertools import combinations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precis.records.results import ATTEMPTS
from precis.statistics.standings import estimate_pass, pass_at, sizes_up_to


def sampled(successes: dict[str, list[float | None]]) -> pl.DataFrame:
    """Attempts at some scenarios; None has no score."""
    rows = []
    for scenario, outcomes in successes.items():
        for number, outcome in enumerate(outcomes, start=1):
            row = {
                **dict.fromkeys(ATTEMPTS, None),
                "scenario_id": scenario,
                "attempt": number,
                "metrics": json.dumps({} if outcome is None else {"success": outcome}),
                "cause": "timeout" if outcome is None else None,
            }
            rows.append(row)
    return pl.DataFrame(rows, schema=ATTEMPTS)


@given(st.lists(st.booleans(), min_size=1, max_size=8), st.integers(1, 8))
def test_the_estimate_is_the_share_of_draws_that_hold_a_success(won: list[bool], k: int) -> None:
    if k > len(won):
        with pytest.raises(ValueError, match="attempts"):
            estimate_pass(sum(won), len(won), k)
        return
    draws = list(combinations(won, k))
    share = sum(map(any, draws)) / len(draws)
    assert estimate_pass(sum(won), len(won), k) == pytest.approx(share)


def test_pass_at_k_is_the_mean_over_scenarios() -> None:
    rows = sampled({"a": [1, 0, 0, 0], "b": [0, 0, 0, 0], "c": [1, 1, 1, 1]})
    one, two, all_four = (pass_at(rows, k) for k in (1, 2, 4))
    assert one is not None and two is not None and all_four is not None
    assert one.mean == pytest.approx((0.25 + 0 + 1) / 3)
    assert two.mean == pytest.approx((0.5 + 0 + 1) / 3)
    assert all_four.mean == pytest.approx(2 / 3)
    assert one.low < one.mean < one.high
    assert [list(sizes_up_to(count)) for count in (0, 1, 6)] == [[], [1], [1, 2, 4, 6]]
    rows = sampled({"a": [1, None], "b": [0, 0]})  # without a score it is no failure
    one, two = pass_at(rows, 1), pass_at(rows, 2)
    assert one is not None and one.mean == 0.5
    assert two is not None and two.mean == 0.0, "of `b` alone: `a` has one attempt"
    assert pass_at(sampled({"a": [None]}), 1) is None
