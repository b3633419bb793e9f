"""The words and figures in which ledger, results and reports speak of an environment."""

from collections.abc import Sequence
from dataclasses import dataclass

from precis.records.rollout import Score

REWARD = "reward of a rollout"
SUCCESS = "success of a rollout"
"""The subject of a figure where the environment names none of its metrics; no name of one."""
PREFERRED = "preferred_to_start"
COMPARED = "compared"
"""Metrics of an attempt that a judge has compared with the run's first one at its scenario."""
TRANSCRIPT = "transcript"
"""Among the details of a score: the attempt that later ones are compared with. Its own preference
is ½ by definition."""


@dataclass(frozen=True)
class Nouns:
    """The words of an environment, in which reports and messages speak of it.

    Attributes:
        rollout: one attempt: `game`, `summary`.
        scenario: the start of one: `board`, `document`.
        reward: the mean reward: `accuracy`.
        success: the share of successes: `win rate`.
        achieved: what that is the share of, in a phrase; empty for no more than its name.
    """

    rollout: str = "rollout"
    rollouts: str = "rollouts"
    scenario: str = "scenario"
    scenarios: str = "scenarios"
    reward: str = "reward"
    success: str = "success rate"
    achieved: str = ""

    @property
    def subtitle(self) -> str:
        """The subtitle of a chart of the measure."""
        return self.achieved or f"On held-out {self.scenarios}, greedy"


@dataclass(frozen=True)
class Figure:
    """A figure of many rollouts: the sum of one of their metrics over that of another.

    Attributes:
        name: what it is called in ledger and reports: `accuracy`.
        part: the metric that is summed.
        whole: the metric that it is a share of; each rollout counts as 1 if empty.
        is_share: whether it is between 0 and 1, and shown as a percentage.
        judge: the model that ruled, where that is another than the reward's.
    """

    name: str
    part: str
    whole: str = ""
    is_share: bool = False
    judge: str = ""

    def part_of(self, score: Score | None) -> float | None:
        """Return what a rollout adds to the figure's part; None where it has nothing to add."""
        return _value(self.part, score)

    def whole_of(self, score: Score | None) -> float | None:
        """Return what a rollout adds to the figure's whole; None where it has nothing to add."""
        return _value(self.whole, score) if self.whole else 1.0


def default_figure(scores: Sequence[Score | None], nouns: Nouns, measure: str = "") -> Figure:
    """Return the share of successes; the mean reward if no score has one. Where some have one, a
    score without counts as a failure.

    Where attempts have no score of their own, it is how often a judge prefers them.

    Args:
        measure: the name of the figure that the run was measured by before, which stays, since a
            validation without any success does not tell that successes are counted.
    """
    if any(one is not None and COMPARED in one.metrics for one in scores):
        return Figure("preferred to the start", PREFERRED, COMPARED, is_share=True)
    success = Figure(nouns.success, SUCCESS, is_share=True)
    reward = Figure(nouns.reward, REWARD)
    for figure in (success, reward):
        if figure.name == measure:
            return figure
    scored = [one for one in scores if one is not None]
    if not scored or any(one.success is not None for one in scored):
        return success
    return reward


def _value(name: str, score: Score | None) -> float | None:
    if score is None:
        return None
    if name == REWARD:
        return score.reward
    if name == SUCCESS:
        return float(score.success or False)
    return score.metrics.get(name)
