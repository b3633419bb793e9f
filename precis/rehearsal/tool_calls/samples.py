"""The samples that GRPO learns from: calls that were made, with all the possible ones."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from precis.rehearsal.kind import Bools, Floats, Integers
from precis.rehearsal.tool_calls.features import WEIGHTS, Seen


@dataclass(frozen=True, eq=False)
class CallSample:
    """One call of a rollout.

    Attributes:
        seen: what the policy saw of the options.
        picks: the option that was picked.
        token: of the option.
        logprob: of the option, by the policy that sampled it.
        reward: what the rollout earned.
        prompt: the prompt's tokens.
        advantage: how much better that is than its group; 0 until `with_advantage`.
    """

    seen: Seen
    picks: tuple[int]
    token: int
    logprob: float
    reward: float
    prompt: tuple[int, ...]
    advantage: float = 0.0

    @property
    def order(self) -> tuple[tuple[int, ...], int, float]:
        """The values that samples are sorted by."""
        return self.prompt, self.token, self.reward

    def with_advantage(self, advantage: float) -> Self:
        """Return the sample with its advantage over its group."""
        return replace(self, advantage=advantage)


@dataclass(frozen=True, eq=False)
class CallBatch:
    """Calls side by side, padded to the most options and features.

    Attributes:
        features: the weights of each option's score, shape (samples, options, features); where it
            is padding, the number behind the last weight.
        shares: how much each of an option's weights counts, shape (samples, features).
        masks: the options of each call, shape (samples, 1, options).
        picks, valid, logprobs: shape (samples, 1).
        advantages: shape (samples,).
    """

    features: Integers
    shares: Floats
    masks: Bools
    picks: Integers
    valid: Bools
    logprobs: Floats
    advantages: Floats

    def scores(self, weights: Floats) -> Floats:
        """Return the score of each option, shape (samples, options)."""
        padded = np.append(weights, 0.0)
        scores: Floats = np.einsum("sof,sf->so", padded[self.features], self.shares)
        return scores

    def gradient(self, by_score: Floats) -> Floats:
        """Return a loss's gradient by the weights, from that by the scores."""
        spread = by_score[:, :, None] * self.shares[:, None, :]
        summed = np.bincount(self.features.ravel(), spread.ravel(), WEIGHTS + 1)
        gradient: Floats = summed[:WEIGHTS].astype(np.float64)
        return gradient

    def replaced(self, logprobs: Floats) -> Self:
        """Return the batch as if another policy had sampled it."""
        return replace(self, logprobs=logprobs)


def batch_of(samples: Sequence[CallSample]) -> CallBatch:
    """Lay samples out side by side."""
    count = len(samples)
    options = max(len(sample.seen.features) for sample in samples)
    width = max(len(sample.seen.shares) for sample in samples)
    features = np.full((count, options, width), WEIGHTS, dtype=np.int64)
    shares = np.zeros((count, width))
    masks = np.zeros((count, 1, options), dtype=np.bool_)
    for row, sample in enumerate(samples):
        found, size = sample.seen.features.shape
        features[row, :found, :size] = sample.seen.features
        shares[row, :size] = sample.seen.shares
        masks[row, 0, :found] = True
    return CallBatch(
        features,
        shares,
        masks,
        np.array([sample.picks for sample in samples], dtype=np.int64),
        np.ones((count, 1), dtype=np.bool_),
        np.array([[sample.logprob] for sample in samples]),
        np.array([sample.advantage for sample in samples]),
    )
