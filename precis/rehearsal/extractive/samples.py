"""The samples that GRPO learns from: sampled summaries, and the grids made of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from precis.rehearsal.extractive.features import NAMES, Features
from precis.rehearsal.extractive.grids import candidates
from precis.rehearsal.kind import Bools, Floats, Integers


@dataclass(frozen=True, eq=False)
class PickedSample:
    """One sampled summary.

    Attributes:
        features: of its document.
        words_max: the budget that it was sampled under.
        picks: sentences in the order of their picking.
        logprobs: of the picks, by the policy that sampled them.
        reward: what the summary earned.
        advantage: how much better that is than its group; 0 until `with_advantage`.
    """

    features: Features
    words_max: int
    picks: tuple[int, ...]
    logprobs: tuple[float, ...]
    reward: float
    advantage: float = 0.0

    @property
    def order(self) -> tuple[tuple[str, ...], tuple[int, ...], float]:
        """The values that samples are sorted by."""
        return self.features.sentences, self.picks, self.reward

    def with_advantage(self, advantage: float) -> Self:
        """Return the sample with its advantage over its group."""
        return replace(self, advantage=advantage)


@dataclass(frozen=True, eq=False)
class PickBatch:
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

    def scores(self, weights: Floats) -> Floats:
        """Return the score of each sentence, shape (samples, sentences)."""
        scores: Floats = np.einsum("nsf,f->ns", self.matrix, weights)
        return scores

    def gradient(self, by_score: Floats) -> Floats:
        """Return a loss's gradient by the weights, from that by the scores."""
        gradient: Floats = np.einsum("ns,nsf->f", by_score, self.matrix)
        return gradient

    def replaced(self, logprobs: Floats) -> Self:
        """Return the batch as if another policy had sampled it."""
        return replace(self, logprobs=logprobs)


def batch_of(samples: Sequence[PickedSample]) -> PickBatch:
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
    return PickBatch(matrix, masks, picks, valid, logprobs, advantages)
