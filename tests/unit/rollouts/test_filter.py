"""Which groups are trained on, and what records say of them."""

from dataclasses import replace
from typing import Any

import pytest

from precis.config import RolloutsConfig
from precis.environments.protocol import Environment, Nouns
from precis.environments.trajectories import group_of
from precis.errors import JudgeUnavailable, RolloutError
from precis.records.rollout import Rollout, Score, Unscored
from precis.records.spend import Spend
from precis.rollouts.filter import (
    StepRollouts,
    filter_groups,
    refuse_too_many_unscored,
    split_groups,
)
from precis.training.stages import step_record
from precis.training.validation import validation_of
from tests.support.bridges import CORPUS
from tests.support.environments import summaries
from tests.support.rollouts import rollout, rollouts

LOST = Unscored("timeout", "late")
SUMMARIES = summaries(CORPUS, judge=None)


def config(**settings: Any) -> RolloutsConfig:
    return RolloutsConfig.model_validate({"rollouts_per_group": 4, "scored_min": 3, **settings})


def test_a_failed_verdict_is_never_a_zero() -> None:
    kept, dropped = split_groups([rollouts(True, False, True, LOST)], config())
    assert [one.reward for one in kept[0]] == [1.0, 0.0, 1.0]
    assert [one.reward for one in group_of(kept[0]).trajectories] == [1.0, 0.0, 1.0]
    assert not dropped


def test_a_group_under_its_floor_is_dropped_and_counted() -> None:
    kept, dropped = split_groups([rollouts(True, False, LOST, LOST)], config())
    assert (kept, dict(dropped)) == ([], {"too_few_scored": 1})


@pytest.mark.parametrize(
    ("cause", "error"),
    [
        ("rate_limited", JudgeUnavailable),
        ("generation_timeout", RolloutError),
        ("agent_failed", RolloutError),
        ("no_score", RolloutError),
        ("turns", RolloutError),
    ],
)
def test_too_many_without_a_score_stop_the_step_and_say_who_is_to_blame(
    cause: str, error: type[Exception]
) -> None:
    lost = Unscored(cause, "Why it was lost.")
    with pytest.raises(error, match=f"2 of 4 .*2 {cause}.*Why it was lost") as caught:
        refuse_too_many_unscored(rollouts(True, False, lost, lost), config())
    assert type(caught.value) is error
    refuse_too_many_unscored(rollouts(True, lost), config(unscored_share_max=0.5))


def test_the_record_of_a_step_counts_causes_and_leaves_the_unscored_out() -> None:
    rows = [rollouts(True, False, LOST, LOST), rollouts(True, True, True, LOST)]
    sampled = StepRollouts(rows, adapter=0, seconds=2.0, spend=Spend())
    batch = filter_groups(sampled, config())
    record = step_record(0, batch, seconds={"gather": 2.5}, judge=Spend(calls=3))
    assert record.reward == pytest.approx(4 / 5)
    assert record.unscored == {"timeout": 3}
    assert record.metrics["words"] == 2
    assert record.groups_dropped == {"too_few_scored": 1, "zero_variance": 1}
    assert (record.groups_trained, record.staleness, record.overlapped_s) == (0, 0, 0.0)


def test_the_record_of_a_step_that_was_sampled_ahead_says_how_stale_and_what_it_saved() -> None:
    sampled = StepRollouts([rollouts(True, False)], adapter=6, seconds=5.0, spend=Spend())
    batch = filter_groups(sampled, config())
    record = step_record(7, batch, seconds={"gather": 1.5, "wait": 0.5}, judge=Spend())
    assert record.staleness == 1
    assert record.overlapped_s == 3.5


def test_a_validation_leaves_the_unscored_out_of_its_accuracy() -> None:
    validation = validation_of(3, rollouts(True, True, False, LOST), 1.0, SUMMARIES)
    accuracy = validation.score
    assert validation.measure == "accuracy"
    assert accuracy.value == pytest.approx(2 / 3)
    assert accuracy.scores == (1, 1, 0, None)
    assert accuracy.weights == (1, 1, 1, None)
    assert validation.unscored == {"timeout": 1}
    assert accuracy.low is not None and accuracy.high is not None
    assert accuracy.low <= accuracy.value <= accuracy.high
    assert validation.metrics["words"].value == 2


def test_a_validation_without_any_verdict_is_no_zero() -> None:
    with pytest.raises(JudgeUnavailable, match="No held-out summary could be judged"):
        validation_of(3, rollouts(LOST, LOST), 1.0, SUMMARIES)


class Game(Environment):
    """Has won and lost games, and names no figures."""

    nouns = Nouns("game", "games", "board", "boards", success="win rate")

    def scenarios(self, split: Any) -> Any:
        return []

    async def rollout(self, model: Any, scenario: Any) -> float:
        return 0.0


def test_an_environment_that_counts_successes_is_measured_by_them() -> None:
    games = [rollout(0, Score(0.5, True, {"turns": 4})), rollout(1, Score(1.0, False))]
    validation = validation_of(3, games, 1.0, Game())
    assert (validation.measure, validation.score.value) == ("win rate", 0.5)
    assert validation.score.is_share
    assert validation.score.scores == (1.0, 0.0)
    assert validation.metrics["turns"].value == 4


def test_the_turns_that_a_success_takes_are_a_metric_of_step_and_validation() -> None:
    games = [turns(0, 2, True), turns(1, 4, True), turns(2, 9, False), turns(3, 9, None)]
    validation = validation_of(3, games, 1.0, Game())
    taken = validation.metrics["turns_to_success"]
    assert taken.value == 3 and taken.low is not None and taken.low >= 2
    batch = filter_groups(StepRollouts([games], 0, 1.0, Spend()), config())
    record = step_record(0, batch, seconds={}, judge=Spend())
    assert record.metrics["turns_to_success"] == 3


def test_neither_lost_games_nor_answers_of_one_turn_have_turns_to_success() -> None:
    for games in ([turns(0, 2, False)], [turns(0, 1, True), turns(1, 1, True)]):
        validation = validation_of(3, games, 1.0, Game())
        assert "turns_to_success" not in validation.metrics


def turns(index: int, count: int, success: bool | None) -> Rollout:
    one = rollout(index, Score(0.5, success))
    return replace(one, calls=one.calls * count)


def test_an_environment_without_successes_is_measured_by_its_reward() -> None:
    games = [rollout(0, Score(-1.0)), rollout(1, Score(4.0))]
    validation = validation_of(3, games, 1.0, Game())
    assert (validation.measure, validation.score.value) == ("reward", 1.5)
    assert not validation.score.is_share
