"""Which adapter each step is sampled from, and where sampling can't overlap training."""

from typing import Any

import pytest
from pydantic import ValidationError

from precis.config import TrainConfig


def config(**given: Any) -> TrainConfig:
    return TrainConfig.model_validate({"store": "s", "off_policy_steps": 1, **given})


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"trainer": {"kind": "art"}}, "trainer.engine.gpus is 1: set that to 2"),
        (
            {"trainer": {"kind": "art", "engine": {"sleep_while_training": True}}},
            "and sleep_while_training to false",
        ),
        ({"trainer": {"kind": "serverless"}}, "of kind 'extractive' or 'art'"),
        ({"retention": {"keep_last": 1}}, "set keep_last to 2 or more"),
        ({"off_policy_steps": 2}, "less than or equal to 1"),
    ],
)
def test_an_overlap_that_cannot_be_is_refused(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValidationError, match=complaint):
        config(**given)


def test_an_overlap_on_two_gpus_or_none_is_taken() -> None:
    assert config().off_policy_steps == 1
    assert config(trainer={"kind": "art", "engine": {"gpus": 2}}).off_policy_steps == 1
