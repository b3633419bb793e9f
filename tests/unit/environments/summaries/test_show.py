"""A summary in a report: what it answers, and why it earns less."""

from dataclasses import replace

import pytest

from precis.environments.summaries.show import show_summary
from precis.records.verdict import Disqualified
from tests.support.reports import judged


@pytest.mark.parametrize(
    ("prose", "why", "earned"),
    [
        (1.0, None, "3 of 4 right, "),
        (0.6, None, "3 of 4 right, 60% prose, "),
        (0.0, "judged_not_prose", "3 of 4 right (scored zero: judged_not_prose), "),
    ],
)
def test_a_summary_is_shown_with_its_right_answers_and_its_prose(
    prose: float, why: Disqualified | None, earned: str
) -> None:
    [summary], _ = judged("trained", 3, [3])
    shown = show_summary(replace(summary, prose=prose, disqualified=why).rollout)
    assert earned in shown
    assert shown.count("✓") == 4, "three answers, and a question declined"
