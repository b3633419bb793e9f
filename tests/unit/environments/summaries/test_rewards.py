"""What length costs in training."""

import pytest

from precis.environments.summaries.rewards import reward_share


@pytest.mark.parametrize(
    ("words", "share"), [(0, 1), (200, 1), (315, 1), (329, 0.6), (350, 0), (400, 0)]
)
def test_the_reward_falls_over_the_last_tenth_of_the_words(words: int, share: float) -> None:
    assert reward_share("word " * words, 350, 0.1) == pytest.approx(share)
