"""The arithmetic of picks, over grids of (samples, picks, sentences)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from precis.extractive.features import Floats, Integers

Bools = NDArray[np.bool_]


def candidates(words: Integers, picks: Sequence[int], words_max: int) -> Bools:
    """Which sentences each pick was drawn from: unpicked and still fitting.

    Returns:
        Shape (picks, sentences).
    """
    at = np.array(picks, dtype=np.int64)
    turn = np.arange(len(at))
    picked_at = np.full(len(words), len(at))
    picked_at[at] = turn
    left = words_max - np.append(0, np.cumsum(words[at])[:-1])
    return (words[None, :] <= left[:, None]) & (picked_at[None, :] >= turn[:, None])


@dataclass(frozen=True, eq=False)
class PickLogprobs:
    """The distributions that picks were drawn from.

    Attributes:
        of_picks: log-probability of each pick, shape (samples, picks).
        of_candidates: probability of each candidate, shape (samples, picks, sentences).
        entropy: of each pick's distribution, in nats, shape (samples, picks).
    """

    of_picks: Floats
    of_candidates: Floats
    entropy: Floats


def pick_logprobs(scores: Floats, masks: Bools, picks: Integers) -> PickLogprobs:
    """The softmax that each pick was drawn from.

    Args:
        scores: shape (samples, sentences).
        masks: the candidates, shape (samples, picks, sentences); none of its rows is empty.
        picks: shape (samples, picks).
    """
    logits = np.where(masks, scores[:, None, :], -np.inf)
    shifted = logits - logits.max(axis=2, keepdims=True)
    odds = np.exp(shifted)
    total = odds.sum(axis=2)
    probabilities = odds / total[:, :, None]
    of_picks = np.take_along_axis(shifted, picks[:, :, None], axis=2)[:, :, 0] - np.log(total)
    expected = (probabilities * np.where(masks, shifted, 0.0)).sum(axis=2)
    return PickLogprobs(of_picks, probabilities, np.log(total) - expected)
