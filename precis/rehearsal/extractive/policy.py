"""The policy: a linear score for each sentence, and Plackett–Luce picks until the budget is full.

A pick is drawn from the softmax of the scores of the sentences that are unpicked and still fit.
GRPO learns from sampled summaries, laid out as grids.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from precis.rehearsal.extractive.features import NAMES, Features
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
    """Indices of the picked sentences, in the order of their picking; temperature 0 picks the best.

    Adding Gumbel noise to the scores and sorting once draws exactly what picking one by one from
    the softmax does (Kool et al. 2019, https://arxiv.org/abs/1903.06059).
    """
    keys = scores(policy, features)
    if temperature > 0:
        order = np.argsort(-(keys / temperature + generator.gumbel(size=len(keys))), kind="stable")
    else:
        salt = f"{policy.seed}:".encode()
        digests = [
            hashlib.blake2b(salt + sentence.encode(), digest_size=7)
            for sentence in features.sentences
        ]
        order = np.lexsort(
            (
                np.array([int.from_bytes(digest.digest()) for digest in digests], dtype=np.int64),
                -keys,
            )
        )
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
    """Return the log-probability of each pick at temperature 1, given those before it."""
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
    """One sampled summary: its picks in their order, with the log probabilities of the policy that
    sampled them, and its advantage over its group, 0 until `with_advantage`."""

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


@dataclass(frozen=True, eq=False, kw_only=True)
class PickBatch(Batch):
    """Summaries side by side; `matrix` has their features, shape (samples, sentences, features)."""

    matrix: Floats

    def scores(self, weights: Floats) -> Floats:
        scores: Floats = np.einsum("nsf,f->ns", self.matrix, weights)
        return scores

    def gradient(self, by_score: Floats) -> Floats:
        gradient: Floats = np.einsum("ns,nsf->f", by_score, self.matrix)
        return gradient


def candidates(words: Integers, picks: Sequence[int], words_max: int) -> Bools:
    """Mark the sentences that each pick was drawn from, unpicked and still fitting: (picks,
    sentences)."""
    at = np.array(picks, dtype=np.int64)
    turn = np.arange(len(at))
    picked_at = np.full(len(words), len(at))
    picked_at[at] = turn
    left = words_max - np.append(0, np.cumsum(words[at])[:-1])
    return (words[None, :] <= left[:, None]) & (picked_at[None, :] >= turn[:, None])


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
    return PickBatch(
        matrix=matrix,
        masks=masks,
        picks=picks,
        valid=valid,
        logprobs=logprobs,
        advantages=np.array([sample.advantage for sample in samples]),
    )
