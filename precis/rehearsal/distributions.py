"""The softmax that picks are drawn from, over grids of (samples, picks, candidates)."""

from dataclasses import dataclass

import numpy as np

from precis.rehearsal.kind import Bools, Floats, Integers


@dataclass(frozen=True, eq=False)
class PickLogprobs:
    """The distributions that picks were drawn from.

    Attributes:
        of_picks: log-probability of each pick, shape (samples, picks).
        of_candidates: probability of each candidate, shape (samples, picks, candidates).
        entropy: of each pick's distribution, in nats, shape (samples, picks).
    """

    of_picks: Floats
    of_candidates: Floats
    entropy: Floats


def pick_logprobs(scores: Floats, masks: Bools, picks: Integers) -> PickLogprobs:
    """Return the softmax that each pick was drawn from.

    Args:
        scores: shape (samples, candidates).
        masks: the candidates, shape (samples, picks, candidates); none of its rows is empty.
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
