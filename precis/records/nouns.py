"""The words and figures of an environment in ledger, results and reports."""

from collections.abc import Sequence
from dataclasses import dataclass

from precis.records.rollout import Score

REWARD = "reward of a rollout"
SUCCESS = "success of a rollout"
"""The parts of the figures of rewards and of successes; not names of metrics."""
PREFERRED = "preferred_to_start"
COMPARED = "compared"
"""The metrics of an attempt that a judge has compared with the run's first at its scenario."""
TRANSCRIPT = "transcript"
"""The key, among a score's details, of the attempt that later ones are compared with. Its own
preference is ½ by definition."""


@dataclass(frozen=True)
class Nouns:
    """The words of an environment for reports and messages.

    Attributes:
        rollout: one attempt: `game`, `summary`.
        scenario: the start of one: `board`, `document`.
        reward: the mean reward: `accuracy`.
        success: the share of successes: `win rate`.
        achieved: the subtitle of charts of the measure; empty for the usual one.
    """

    rollout: str = "rollout"
    rollouts: str = "rollouts"
    scenario: str = "scenario"
    scenarios: str = "scenarios"
    reward: str = "reward"
    success: str = "success rate"
    achieved: str = ""

    def count(self, scenarios: int) -> str:
        """Return a number of scenarios in words: `1 board`, `64 boards`."""
        return f"{scenarios:,} {self.scenario if scenarios == 1 else self.scenarios}"

    @property
    def subtitle(self) -> str:
        return self.achieved or f"On held-out {self.scenarios}, greedy"


@dataclass(frozen=True)
class Figure:
    """A figure of many rollouts: the sum of one of their metrics over that of another.

    Attributes:
        name: its name in ledger and reports: `accuracy`.
        part: the metric to sum.
        whole: the metric in the denominator; if empty, each rollout counts as 1.
        is_share: whether it is between 0 and 1, and shown as a percentage.
        judge: the judging model, if it is not the reward's.
    """

    name: str
    part: str
    whole: str = ""
    is_share: bool = False
    judge: str = ""

    def part_of(self, score: Score | None) -> float | None:
        """Return a rollout's contribution to the numerator, or None."""
        return _value(self.part, score)

    def whole_of(self, score: Score | None) -> float | None:
        """Return a rollout's contribution to the denominator, or None without one above zero."""
        if not self.whole:
            return 1.0
        value = _value(self.whole, score)
        return value if value is not None and value > 0 else None


def default_figure(scores: Sequence[Score | None], nouns: Nouns, measure: str = "") -> Figure:
    """Return the share of successes; the mean reward if no score has a success. If some have one, a
    score without counts as a failure.

    For attempts without their own score, it is the share of a judge's preferences. The run's
    earlier `measure` is kept, since a validation without any success does not show that successes
    are counted.
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
