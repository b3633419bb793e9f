"""The samples of GRPO: calls, each with all its alternatives."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from precis.rehearsal.kind import Batch, Floats, Integers
from precis.rehearsal.tool_calls.features import WEIGHTS, Seen

_BLOCK_BYTES = 32 * 2**20
"""The most bytes of one block: a large batch would take gigabytes."""


@dataclass(frozen=True, eq=False)
class CallSample:
    """One call of a rollout: the features of its options, and the picked one with its token and log
    probability."""

    seen: Seen
    picks: tuple[int]
    token: int
    logprob: float
    reward: float
    prompt: tuple[int, ...]

    @property
    def order(self) -> tuple[tuple[int, ...], int, float]:
        """The sort key of samples."""
        return self.prompt, self.token, self.reward


@dataclass(frozen=True, eq=False, kw_only=True)
class CallBatch(Batch):
    """A batch of calls; `seen` has the features of each call's options."""

    seen: Sequence[Seen]

    def scores(self, weights: Floats) -> Floats:
        padded = np.append(weights, 0.0)
        scores = []
        for _, features, shares in self._blocks():
            scores.append(np.einsum("sof,sf->so", padded[features], shares))
        return np.concatenate(scores)

    def gradient(self, by_score: Floats) -> Floats:
        summed: Floats | None = None
        for calls, features, shares in self._blocks():
            spread = (by_score[calls, :, None] * shares[:, None, :]).ravel()
            if summed is None:
                summed = np.bincount(features.ravel(), spread, WEIGHTS + 1).astype(np.float64)
            else:  # one by one, as if it were one block
                np.add.at(summed, features.ravel(), spread)
        assert summed is not None
        return summed[:WEIGHTS]

    def _blocks(self) -> Iterator[tuple[slice, Integers, Floats]]:
        """Yield blocks of calls, with their features as grids of one size.

        These are the weight indices of each option, shape (calls, options, features), one behind
        the last weight for padding; and the factor of each, (calls, features).
        """
        options = self.masks.shape[2]
        width = max(len(one.shares) for one in self.seen)
        size = max(1, _BLOCK_BYTES // (8 * options * width))
        for start in range(0, len(self.seen), size):
            block = self.seen[start : start + size]
            features = np.full((len(block), options, width), WEIGHTS, dtype=np.int64)
            shares = np.zeros((len(block), width))
            for row, one in enumerate(block):
                found, count = one.features.shape
                features[row, :found, :count] = one.features
                shares[row, :count] = one.shares
            yield slice(start, start + size), features, shares
