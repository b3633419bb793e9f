"""A judge that can't read the documents is found out before anything is trained."""

import pytest

from precis.environments.summaries.judge.ceiling import check_ceiling
from precis.errors import ConfigError


def test_a_ceiling_that_is_high_enough_needs_no_word() -> None:
    assert check_ceiling(0.5, 0.2, "a judge") == ""


def test_a_ceiling_below_the_least_stops_the_run_and_names_the_setting() -> None:
    with pytest.raises(ConfigError, match="ceiling_min"):
        check_ceiling(0.19, 0.2, "a judge")
