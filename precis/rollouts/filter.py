"""Which groups are trained on, and when too few rollouts have a score to go on."""

import statistics
from collections import Counter
from collections.abc import Sequence

from precis.config import RolloutsConfig
from precis.errors import JudgeUnavailable, RolloutError
from precis.records.rollout import Rollout, Unscored

ZERO_VARIANCE = "zero_variance"
"""Why a group is dropped whose rollouts all earned the same."""

_NOT_THE_JUDGE = ("generation_", "agent_", "no_", "turns", "tokens", "rollout_timeout")
"""How the causes begin that policy or agent are to blame for, and not what scores them."""

Group = list[Rollout]


def split_groups(
    groups: Sequence[Sequence[Rollout]], config: RolloutsConfig
) -> tuple[list[Group], Counter[str]]:
    """The groups to train on, and how many were dropped, by cause.

    Unscored rollouts leave their group; a group with fewer than `scored_min` others is dropped,
    and so is one whose rewards are all the same, since it carries no advantage.
    """
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
    """Why a group is not trained on; None where it is."""
    rewards = rewards_of(group)
    if len(rewards) < config.scored_min:
        return "too_few_scored"
    # GRPO's advantage is the distance from the group's mean: here it would be zero for all.
    return ZERO_VARIANCE if len(set(rewards)) == 1 else None


def rewards_of(group: Sequence[Rollout]) -> list[float]:
    """The rewards of the rollouts that have a score."""
    return [one.reward for one in group if one.reward is not None]


def reward_spread(groups: Sequence[Sequence[Rollout]]) -> float:
    """Mean over groups of the reward's standard deviation within the group."""
    known = [rewards_of(group) for group in groups]
    deviations = [statistics.pstdev(rewards) for rewards in known if rewards]
    return statistics.fmean(deviations) if deviations else 0.0


def count_causes(rollouts: Sequence[Rollout]) -> Counter[str]:
    """How many rollouts have no score, by cause."""
    return Counter(one.score.cause for one in rollouts if isinstance(one.score, Unscored))


def refuse_too_many_unscored(rollouts: Sequence[Rollout], config: RolloutsConfig) -> None:
    """Raise if more than `unscored_share_max` of the rollouts are unscored.

    Raises:
        RolloutError: most of those by the fault of policy or agent.
        JudgeUnavailable: else.
    """
    causes = count_causes(rollouts)
    if causes.total() <= config.unscored_share_max * len(rollouts):
        return
    listed = ", ".join(f"{count} {cause}" for cause, count in causes.most_common())
    details = [one.score.detail for one in rollouts if isinstance(one.score, Unscored)]
    message = (
        f"{causes.total()} of {len(rollouts)} rollouts have no score ({listed}), more than the "
        f"allowed share of {config.unscored_share_max:.0%}. The first: {details[0]}"
    )
    # Where policy or agent is to blame, waiting for the judge is no help.
    theirs = sum(count for cause, count in causes.items() if cause.startswith(_NOT_THE_JUDGE))
    if 2 * theirs > causes.total():
        raise RolloutError(message)
    raise JudgeUnavailable(message)
