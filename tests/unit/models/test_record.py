"""What is kept of a run's settings for who uses the model."""

from typing import Any

import pytest

from precis.config import TrainConfig
from precis.models.record import training_record


@pytest.mark.parametrize(
    ("trainer", "tokens_max"),
    [
        ({"kind": "extractive"}, None),
        ({"kind": "art", "engine": {"tokens_max": 2048}}, 2048),
        ({"kind": "tinker", "tokens_max": 16384}, 16384),
    ],
)
def test_the_record_says_how_much_the_model_read_at_once(
    trainer: dict[str, Any], tokens_max: int | None
) -> None:
    """`precis model serve` serves it with that many, and with 4096 where nothing is said."""
    config = TrainConfig.model_validate({"store": "s", "trainer": trainer})
    assert training_record(config, "a-judge").tokens_max == tokens_max
