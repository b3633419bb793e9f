"""How much better than its group each rollout did."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from precis.rehearsal.kind import Sample

S = TypeVar("S", bound=Sample)
Group = Sequence[Sequence[S]]
"""The rollouts of a scenario, each with its samples."""


def with_advantages(groups: Sequence[Group[S]], scale_rewards: bool = True) -> list[S]:
    """Return the samples of all groups whose rewards differ, with their advantages.

    The advantage is (reward - mean) / deviation over the group (Shao et al. 2024,
    https://arxiv.org/abs/2402.03300), or, where rewards are not scaled, reward - mean (Liu et al.
    2025, https://arxiv.org/abs/2503.20783). A group of equal rewards says nothing and is left out.
    Rollouts arrive in the order of their completion, which differs from run to run; they are put
    into a fixed order, because floating-point sums depend on it.
    """
    ordered = [sorted((list(one) for one in group if one), key=_order) for group in groups]
    ordered.sort(key=lambda group: list(map(_order, group)))
    return [sample for group in ordered for sample in _centred(group, scale_rewards)]


def _order(rollout: Sequence[Sample]) -> list[object]:
    return [sample.order for sample in rollout]


def _centred(group: Group[S], scale_rewards: bool) -> list[S]:
    rewards = np.array([rollout[0].reward for rollout in group])
    if not len(rewards) or (rewards == rewards[0]).all():
        return []
    advantages = rewards - rewards.mean()
    if scale_rewards:
        advantages = advantages / rewards.std()
    centred = []
    for rollout, advantage in zip(group, advantages, strict=True):
        for sample in rollout:
            if sample.picks:
                centred.append(sample.with_advantage(float(advantage)))
    return centred
