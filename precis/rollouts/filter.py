"""The choice of training groups, and the limit of unscored rollouts."""

import math
import statistics
from collections import Counter
from collections.abc import Sequence

from precis.config import RolloutsConfig
from precis.errors import BudgetReached, ConfigError, JudgeUnavailable, RolloutError
from precis.records.rollout import Rollout, Unscored
from precis.records.spend import Spend
from precis.records.warm_start import Demonstration

ZERO_VARIANCE = "zero_variance"
"""The cause of dropping a group with equal rewards."""

_NOT_THE_JUDGE = (
    "generation_",
    "agent_",
    "environment_",
    "opponent_",
    "worker_",
    "no_",
    "turns",
    "tokens",
    "rollout_timeout",
    "budget",
)
"""The prefixes of causes due to policy, agent or `dollars_max`, not the judge."""
_OF_THE_AGENT = ("agent_failed", "generation_rejected", "no_calls", "no_score")

Group = list[Rollout]


class StepRollouts:
    """All rollouts of a step, a row for each scenario, sampled from one adapter, with the training
    groups and the number of dropped ones, by cause, and the wall time and the cost of sampling and
    scoring. Not a dataclass: Prefect traverses those, with all they hold, on every task call."""

    def __init__(
        self,
        rows: Sequence[Sequence[Rollout]],
        config: RolloutsConfig,
        adapter: int,
        seconds: float,
        spend: Spend,
    ) -> None:
        self.rows = rows
        self.groups, self.dropped = split_groups(rows, config)
        self.adapter = adapter
        self.seconds = seconds
        self.spend = spend


def split_groups(
    groups: Sequence[Sequence[Rollout]], config: RolloutsConfig
) -> tuple[list[Group], Counter[str]]:
    """Return the training groups, and the number of dropped ones, by cause. Unscored rollouts leave
    their group; a group with fewer than `scored_min` others is dropped, and so is one with equal
    rewards, which has no advantages."""
    kept: list[Group] = []
    dropped: Counter[str] = Counter()
    for group in groups:
        cause = why_dropped(group, config)
        if cause:
            dropped[cause] += 1
        else:
            kept.append([one for one in group if one.reward is not None])
    return kept, dropped


def why_dropped(group: Sequence[Rollout], config: RolloutsConfig) -> str | None:
    """Return why a group is dropped, or None."""
    rewards = rewards_of(group)
    if len(rewards) < config.scored_min:
        return "too_few_scored"
    # GRPO's advantage is the distance from the group's mean: zero for all of these. Where only
    # rounding tells them apart (0.1 + 0.2 from 0.3), its scaling would make noise an advantage.
    are_equal = math.isclose(min(rewards), max(rewards), abs_tol=1e-12)
    return ZERO_VARIANCE if are_equal else None


def rewards_of(group: Sequence[Rollout]) -> list[float]:
    return [one.reward for one in group if one.reward is not None]


def reward_spread(groups: Sequence[Sequence[Rollout]]) -> float:
    """Return the mean over groups of the reward's standard deviation within the group."""
    deviations = []
    for group in groups:
        rewards = rewards_of(group)
        if rewards:
            deviations.append(statistics.pstdev(rewards))
    return statistics.fmean(deviations) if deviations else 0.0


def mean_metrics(rollouts: Sequence[Rollout | Demonstration]) -> dict[str, float]:
    """Return the mean of each metric, over the rollouts that have it."""
    values: dict[str, list[float]] = {}
    for one in rollouts:
        for name, value in one.metrics.items():
            values.setdefault(name, []).append(value)
    return {name: statistics.fmean(found) for name, found in values.items()}


def turns_to_success(rollouts: Sequence[Rollout]) -> list[float]:
    """Return the number of calls of each success; empty if no rollout makes more than one."""
    most = 0
    turns = []
    for one in rollouts:
        most = max(most, len(one.calls))
        if one.score.success:
            turns.append(float(len(one.calls)))
    return turns if most > 1 else []


def count_causes(rollouts: Sequence[Rollout]) -> Counter[str]:
    return Counter(one.score.cause for one in rollouts if one.score.cause is not None)


def refuse_too_many_unscored(
    rollouts: Sequence[Rollout],
    config: RolloutsConfig,
    *,
    is_first: bool = False,
    needs_one: bool = False,
) -> None:
    """Raise if more than `unscored_share_max` of the rollouts are unscored: RolloutError if most of
    those are due to policy or agent, BudgetReached if all are due to the budget, else
    JudgeUnavailable. If the agent fails in all of a run's first ones, ConfigError. With `needs_one`
    it raises if none is scored, whatever share is allowed."""
    unscored = [one.score for one in rollouts if isinstance(one.score, Unscored)]
    most = config.unscored_share_max
    is_too_many = bool(rollouts) and len(unscored) / len(rollouts) > most
    if not unscored or not (is_too_many or (needs_one and len(unscored) == len(rollouts))):
        return
    causes = count_causes(rollouts).most_common()
    usual = causes[0][0]
    first = next(one.detail for one in unscored if one.cause == usual)
    listed = ", ".join(f"{count} {cause}" for cause, count in causes)
    theirs = sum(count for cause, count in causes if cause.startswith(_NOT_THE_JUDGE))
    allowed = f", more than the allowed share of {100 * most:g}%" if is_too_many else ""
    message = (
        f"{len(unscored)} of {len(rollouts)} rollouts have no score ({listed}){allowed}. "
        f"The first {usual}: {first}"
    )
    if usual == "budget" and len(causes) == 1:
        raise BudgetReached(message)
    of_agent = sum(count for cause, count in causes if cause in _OF_THE_AGENT)
    if is_first and of_agent == len(rollouts):
        raise ConfigError(message)
    # Waiting for the judge would not help against failures of policy or agent.
    if 2 * theirs > len(unscored):
        raise RolloutError(message)
    raise JudgeUnavailable(message)
