"""Which groups are trained on, and what records say of them."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from precis.config import RolloutsConfig
from precis.environments.trajectories import group_of
from precis.errors import BudgetReached, ConfigError, JudgeUnavailable, PrecisError, RolloutError
from precis.records.nouns import Figure
from precis.records.results import row_of
from precis.records.rollout import Scenario, Score, Unscored
from precis.rollouts.filter import count_causes, refuse_too_many_unscored, split_groups
from precis.statistics.intervals import share_interval
from precis.training.validation import validation_of
from tests.support.bridges import CORPUS
from tests.support.environments import summaries
from tests.support.rollouts import rollout, rollouts
from tests.support.scripted_policy import Agent
from tests.support.summaries import provenance

LOST = Unscored("timeout", "late")
FAILED = Unscored("agent_failed", "KeyError")
SPENT = Unscored("budget", "It could exceed dollars_max.")
UNTOLD = Unscored("no_score", "It returned nothing.")
SUMMARIES = summaries(CORPUS, judge=None)
NOBODY: Any = None
GAMES = Agent(NOBODY)
"""Measured, and played no more."""


def config(**settings: Any) -> RolloutsConfig:
    return RolloutsConfig.model_validate({"rollouts_per_group": 4, "scored_min": 3, **settings})


def test_a_failed_verdict_is_never_a_zero() -> None:
    group = rollouts(True, False, True, LOST)
    kept, dropped = split_groups([group], config())
    assert [one.reward for one in kept[0]] == [1.0, 0.0, 1.0]
    assert [one.reward for one in group_of(group).trajectories] == [1.0, 0.0, 1.0]
    assert not dropped
    assert count_causes([*kept[0], *rollouts(LOST, Unscored("", "No dice."))]) == {
        "timeout": 1,
        "": 1,
    }


def test_a_group_under_its_floor_is_dropped_and_counted() -> None:
    kept, dropped = split_groups([rollouts(True, False, LOST, LOST)], config())
    assert (kept, dict(dropped)) == ([], {"too_few_scored": 1})


@pytest.mark.parametrize("rewards", [(0.1 + 0.2, 0.3, 0.3), (0.3 - 0.2 - 0.1, 0.0, 0.0)])
def test_rewards_that_only_rounding_tells_apart_are_equal(rewards: tuple[float, ...]) -> None:
    kept, dropped = split_groups([rollouts(*map(Score, rewards))], config())
    assert (kept, dict(dropped)) == ([], {"zero_variance": 1})


@pytest.mark.parametrize(
    ("cause", "error"),
    [
        ("rate_limited", JudgeUnavailable),
        ("generation_timeout", RolloutError),
        ("agent_failed", RolloutError),
        ("environment_failed", RolloutError),
        ("opponent_failed", RolloutError),
        ("worker_died", RolloutError),
        ("no_score", RolloutError),
        ("turns", RolloutError),
        ("budget", RolloutError),
    ],
)
def test_too_many_without_a_score_stop_the_step(cause: str, error: type[Exception]) -> None:
    lost, other = Unscored(cause, "Why it was lost."), Unscored("no_news", "Not this one.")
    message = f"3 of 5 .*2 {cause}.*The first {cause}: Why it was lost"
    with pytest.raises(error, match=message) as caught:
        refuse_too_many_unscored(rollouts(True, False, other, lost, lost), config())
    assert type(caught.value) is error
    refuse_too_many_unscored(rollouts(True, lost), config(unscored_share_max=0.5))
    # 0.29 * 100 is less than 29.
    of_a_hundred = rollouts(*[lost] * 29, *[True] * 71)
    refuse_too_many_unscored(of_a_hundred, config(unscored_share_max=0.29))


@pytest.mark.parametrize(
    ("scores", "is_first", "error"),
    [
        ((FAILED, UNTOLD), True, ConfigError),
        ((FAILED, Unscored("generation_rejected", "No tools.")), True, ConfigError),
        ((FAILED, UNTOLD), False, RolloutError),
        ((FAILED, FAILED, True), True, RolloutError),
        ((FAILED, Unscored("rollout_timeout", "Late.")), True, RolloutError),
        ((LOST, LOST), True, JudgeUnavailable),
        ((SPENT, SPENT), False, BudgetReached),
    ],
)
def test_an_agent_that_has_never_worked_is_not_tried_again(
    scores: tuple[bool | Unscored, ...], is_first: bool, error: type[Exception]
) -> None:
    with pytest.raises(PrecisError, match=r"no score .* allowed share of 20%") as caught:
        refuse_too_many_unscored(rollouts(*scores), config(), is_first=is_first)
    assert type(caught.value) is error
    lax = config(unscored_share_max=1)
    refuse_too_many_unscored(rollouts(*scores), lax, is_first=is_first)
    if True not in scores:
        with pytest.raises(error, match=r"2 of 2 rollouts have no score \([^)]*\)\. The first"):
            refuse_too_many_unscored(rollouts(*scores), lax, is_first=is_first, needs_one=True)


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


def test_a_validation_has_the_interval_of_a_benchmark_whatever_its_order() -> None:
    sampled = []
    for name, score in enumerate([1, 0, 0, 1, 1, 0.5, 0.25, 1]):
        game = rollout(0, Score(score))
        sampled.append(replace(game, scenario=Scenario(f"s{name}")))
    first = validation_of(0, sampled, 1.0, GAMES).score
    turned = validation_of(0, sampled[::-1], 1.0, GAMES).score
    assert (first.low, first.high) == (turned.low, turned.high)
    assert turned.scores == (1, 0.25, 0.5, 1, 1, 0, 0, 1)
    won_or_lost = validation_of(0, sampled[:5], 1.0, GAMES).score
    wilson = share_interval(3, 5)
    assert (won_or_lost.low, won_or_lost.high) == (wilson.low, wilson.high)


def test_a_denominator_that_is_not_above_zero_leaves_its_rollout_out() -> None:
    agent = Agent(NOBODY)
    agent.figures = (Figure("gain a cost", "gain", "cost"),)
    played = []
    for cost in (-1.0, 0.0, 2.0):
        played.append(rollout(0, Score(1.0, metrics={"gain": 3.0, "cost": cost})))
    found = validation_of(0, played, 1.0, agent).score
    assert (found.value, found.weights) == (1.5, (None, None, 2.0))
    rows = [row_of(one, provenance(), agent.figures[0], text="") for one in played]
    assert [row["score"] for row in rows] == [None, None, 3.0]


def test_a_figure_that_some_rollouts_lack_says_how_many_have_it() -> None:
    """A second judge that fails on some documents is shown beside the first, which had all."""
    agent = Agent(NOBODY)
    second = Figure("second_accuracy", "second_correct", "second_asked", True, "b")
    agent.figures = (Figure("accuracy", "correct", "asked", True), second, Figure("kept", "kept"))
    played = []
    for right in (0.0, 1.0, 1.0, 1.0, 1.0):
        metrics = {"correct": right, "asked": 1.0}
        if right:
            metrics.update({"second_correct": 1.0, "second_asked": 1.0, "kept": 1.0})
        played.append(rollout(0, Score(right, metrics=metrics)))
    found = validation_of(0, played, 1.0, agent).metrics
    assert found["accuracy"].with_interval == "80.0% (37.6% to 96.4%)"
    assert found["second_accuracy"].with_interval == "100.0% (of 4) (51.0% to 100.0%)"
    assert str(found["kept"]) == "1 (of 4)"
    played.append(rollout(0, Unscored("timeout", "")))
    found = validation_of(0, played, 1.0, agent).metrics
    assert found["accuracy"].with_interval == "80.0% (of 5) (37.6% to 96.4%)"


@pytest.mark.parametrize(
    ("scores", "first_measure", "measure", "shown", "success_rate"),
    [
        ((Score(-1.0), Score(4.0)), "", "reward", "1.5", None),
        ((Score(1.0, True), Score(0.0)), "", "success rate", "50.0%", 0.5),
        ((Score(3.0, True), Score(1.0)), "reward", "reward", "2", 0.5),
        ((Score(1.0), Score(1.0)), "success rate", "success rate", "0.0%", 0.0),
    ],
)
def test_successes_are_the_measure_where_there_are_some_unless_a_run_began_with_another(
    scores: Sequence[Score], first_measure: str, measure: str, shown: str, success_rate: float
) -> None:
    validation = validation_of(3, rollouts(*scores), 1.0, GAMES, first_measure)
    assert (validation.measure, str(validation.score)) == (measure, shown)
    # Two scenarios say nothing of the spread of rewards.
    assert validation.score.is_share or validation.score.with_interval == shown
    counted = validation.metrics.get("success rate")
    assert (counted and counted.value) == success_rate
