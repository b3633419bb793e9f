"""The interval of a share of successes."""

import pytest

from precis.statistics.intervals import share_interval


@pytest.mark.parametrize(
    ("successes", "count", "low", "high"),
    [(0, 100, 0.0, 0.0370), (88, 100, 0.8019, 0.9300), (100, 100, 0.9630, 1.0), (1, 1, 0.2065, 1)],
)
def test_a_share_of_successes_has_wilson_s_interval(
    successes: int, count: int, low: float, high: float
) -> None:
    found = share_interval(successes, count)
    assert found.mean == successes / count
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-4)
    with pytest.raises(ValueError, match="at least one trial"):
        share_interval(0, 0)
