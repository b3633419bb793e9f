"""The policy: a linear score for each sentence, and Plackett–Luce picks until the budget is full.

A pick is drawn from the softmax of the scores of the unpicked sentences that still fit. GRPO learns
from sampled summaries, arranged as grids.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from precis.rehearsal.extractive.features import Features
from precis.rehearsal.grpo import pick_logprobs
from precis.rehearsal.kind import Batch, Bools, Floats, Integers, LinearPolicy

_ENDS = '.!?…。！？؟۔।"”’)」』'


def scores(policy: LinearPolicy, features: Features) -> Floats:
    """Return the score of each sentence, shape (sentences,)."""
    found: Floats = np.einsum("sf,f->s", features.matrix, policy.weights)
    return found


def pick(
    policy: LinearPolicy,
    features: Features,
    words_max: int,
    temperature: float,
    generator: np.random.Generator,
) -> tuple[int, ...]:
    """Return the indices of the picked sentences, in picking order; temperature 0 picks the best.

    Adding Gumbel noise to the scores and sorting once is equivalent to picking one by one from the
    softmax (Kool et al. 2019, https://arxiv.org/abs/1903.06059).
    """
    keys = scores(policy, features)
    if temperature > 0:
        order = np.argsort(-(keys / temperature + generator.gumbel(size=len(keys))), kind="stable")
    else:
        order = policy.rank(keys, features.sentences)
    picks = []
    left = words_max
    for index, words in zip(order.tolist(), features.words[order].tolist(), strict=True):
        if words <= left:
            picks.append(index)
            left -= words
    return tuple(picks)


def logprobs(
    policy: LinearPolicy, features: Features, picks: Sequence[int], words_max: int
) -> Floats:
    """Return the log-probability of each pick at temperature 1, given the previous picks."""
    if not picks:
        return np.zeros(0)
    at = np.array([picks])
    masks = candidates(features.words, picks, words_max)[None]
    found: Floats = pick_logprobs(scores(policy, features)[None], masks, at).of_picks[0]
    return found


def summary(features: Features, picks: Sequence[int]) -> str:
    """Return the picked sentences in document order; headings and list items keep their line."""
    text = ""
    for index in sorted(picks):
        if text:
            text += " " if text[-1] in _ENDS else "\n"
        text += features.sentences[index]
    return text


@dataclass(frozen=True, eq=False)
class PickedSample:
    """One sampled summary: its picks in order, and their log probabilities under the sampling
    policy."""

    features: Features
    words_max: int
    picks: tuple[int, ...]
    logprobs: tuple[float, ...]
    reward: float

    @property
    def order(self) -> tuple[tuple[str, ...], tuple[int, ...], float]:
        """The sort key of samples."""
        return self.features.sentences, self.picks, self.reward


@dataclass(frozen=True, eq=False, kw_only=True)
class PickBatch(Batch):
    """A batch of summaries; `matrix` has their features, shape (samples, sentences, features)."""

    matrix: Floats

    def scores(self, weights: Floats) -> Floats:
        scores: Floats = np.einsum("nsf,f->ns", self.matrix, weights)
        return scores

    def gradient(self, by_score: Floats) -> Floats:
        gradient: Floats = np.einsum("ns,nsf->f", by_score, self.matrix)
        return gradient


def candidates(words: Integers, picks: Sequence[int], words_max: int) -> Bools:
    """Return the mask of the candidates of each pick, unpicked and still fitting: (picks,
    sentences)."""
    at = np.array(picks, dtype=np.int64)
    turn = np.arange(len(at))
    picked_at = np.full(len(words), len(at))
    picked_at[at] = turn
    left = words_max - np.append(0, np.cumsum(words[at])[:-1])
    return (words[None, :] <= left[:, None]) & (picked_at[None, :] >= turn[:, None])
