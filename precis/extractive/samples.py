"""What GRPO learns from: sampled summaries with their advantages, and the grids made of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from precis.extractive.features import NAMES, Features, Floats, Integers
from precis.extractive.grids import Bools, candidates


@dataclass(frozen=True, eq=False)
class PickedSample:
    """One sampled summary.

    Attributes:
        features: of its document.
        words_max: the budget that it was sampled under.
        picks: sentences in the order of their picking.
        logprobs: of the picks, by the policy that sampled them.
        reward: what the summary earned.
        advantage: how much better that is than its group; 0 until `with_advantages`.
    """

    features: Features
    words_max: int
    picks: tuple[int, ...]
    logprobs: tuple[float, ...]
    reward: float
    advantage: float = 0.0


def with_advantages(
    groups: Sequence[Sequence[PickedSample]], scale_rewards: bool = True
) -> list[PickedSample]:
    """The samples of all groups whose rewards differ, with their advantages over their group.

    The advantage is (reward - mean) / deviation over the group (Shao et al. 2024,
    https://arxiv.org/abs/2402.03300), or, where rewards are not scaled, reward - mean (Liu et al.
    2025, https://arxiv.org/abs/2503.20783). A group of equal rewards says nothing and is left out.
    Samples arrive in the order of their completion, which differs from run to run; they are
    put in an order of their own, because floating-point sums depend on it.
    """
    ordered = [sorted(group, key=_key) for group in groups]
    ordered.sort(key=lambda group: list(map(_key, group)))
    return [sample for group in ordered for sample in _centred(group, scale_rewards)]


def _key(sample: PickedSample) -> tuple[tuple[str, ...], tuple[int, ...], float]:
    return sample.features.sentences, sample.picks, sample.reward


def _centred(group: Sequence[PickedSample], scale_rewards: bool) -> list[PickedSample]:
    rewards = np.array([sample.reward for sample in group])
    if not len(rewards) or (rewards == rewards[0]).all():
        return []
    advantages = rewards - rewards.mean()
    if scale_rewards:
        advantages = advantages / rewards.std()
    centred = []
    for sample, advantage in zip(group, advantages, strict=True):
        if sample.picks:
            centred.append(replace(sample, advantage=float(advantage)))
    return centred


@dataclass(frozen=True, eq=False)
class Batch:
    """Samples side by side, padded to the longest.

    Attributes:
        matrix: features, shape (samples, sentences, features).
        masks: candidates of each pick, shape (samples, picks, sentences).
        picks: shape (samples, picks).
        valid: which picks are not padding, shape (samples, picks).
        logprobs: by the policy that sampled the picks, shape (samples, picks).
        advantages: shape (samples,).
    """

    matrix: Floats
    masks: Bools
    picks: Integers
    valid: Bools
    logprobs: Floats
    advantages: Floats


def batch_of(samples: Sequence[PickedSample]) -> Batch:
    """Lay samples out as grids. Each has at least one pick."""
    count = len(samples)
    sentences = max(len(sample.features.words) for sample in samples)
    turns = max(len(sample.picks) for sample in samples)
    matrix = np.zeros((count, sentences, len(NAMES)))
    masks = np.zeros((count, turns, sentences), dtype=np.bool_)
    masks[:, :, 0] = True  # padding picks sentence 0 of 1: log-probability 0
    picks = np.zeros((count, turns), dtype=np.int64)
    valid = np.zeros((count, turns), dtype=np.bool_)
    logprobs = np.zeros((count, turns))
    for row, sample in enumerate(samples):
        size = len(sample.features.words)
        length = len(sample.picks)
        matrix[row, :size] = sample.features.matrix
        masks[row, :length, :size] = candidates(
            sample.features.words, sample.picks, sample.words_max
        )
        picks[row, :length] = sample.picks
        valid[row, :length] = True
        logprobs[row, :length] = sample.logprobs
    advantages = np.array([sample.advantage for sample in samples])
    return Batch(matrix, masks, picks, valid, logprobs, advantages)
