"""Which adapter each step is sampled from, and where sampling can't overlap training."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from precis.config import TrainConfig
from precis.store import open_store
from precis.training.run import Run
from tests.support.corpora import corpus
from tests.support.environments import summaries_of


def config(**given: Any) -> TrainConfig:
    return TrainConfig.model_validate({"store": "s", "off_policy_steps": 1, **given})


class Judge:
    """Is never asked."""

    def __init__(self) -> None:
        self.identity = {"model": "a-judge"}


def run(folder: Path, **given: Any) -> Run:
    """A run that has not begun; nobody asks its judge, its lease or its trainer."""
    settings = config(store=str(folder), **given)
    judge: Any = Judge()
    nobody: Any = None
    environment = summaries_of(settings, corpus(), judge)
    return Run(settings, environment, nobody, open_store(settings.store), nobody, nobody)


def adapters(of: Run, first: int = 0) -> list[int]:
    return [of.adapter_for(step) for step in range(first, 5)]


def test_a_step_is_sampled_from_its_own_adapter_where_nothing_overlaps(tmp_path: Path) -> None:
    assert adapters(run(tmp_path, off_policy_steps=0)) == [0, 1, 2, 3, 4]


def test_a_step_is_sampled_from_the_adapter_before_where_sampling_overlaps(tmp_path: Path) -> None:
    assert adapters(run(tmp_path)) == [0, 0, 1, 2, 3]


def test_no_step_is_sampled_from_the_policy_before_its_warm_start(tmp_path: Path) -> None:
    warmed = run(tmp_path, warm_start={"scenarios": 2})
    assert adapters(warmed, first=1) == [1, 1, 2, 3]


def test_no_step_is_sampled_from_an_adapter_that_is_gone(tmp_path: Path) -> None:
    resumed = run(tmp_path)
    resumed.oldest_adapter = 3
    assert adapters(resumed, first=3) == [3, 3]


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


def test_the_overlap_decides_the_result() -> None:
    digests = {config(off_policy_steps=steps).identity("k", {"model": "j"}) for steps in (0, 1)}
    assert len(digests) == 2
