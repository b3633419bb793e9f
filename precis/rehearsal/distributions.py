"""The softmax that picks are drawn from, over grids of (samples, picks, candidates)."""

from dataclasses import dataclass

import numpy as np

from precis.rehearsal.kind import Bools, Floats, Integers


@dataclass(frozen=True, eq=False)
class PickLogprobs:
    """The distributions that picks were drawn from: the log-probability of each pick and the
    entropy in nats, shape (samples, picks), and the probability of each candidate beside."""

    of_picks: Floats
    of_candidates: Floats
    entropy: Floats


def pick_logprobs(scores: Floats, masks: Bools, picks: Integers) -> PickLogprobs:
    """Return the softmax that each pick was drawn from.

    Scores have the shape (samples, candidates), picks (samples, picks), and masks, of which no row
    is empty, (samples, picks, candidates).
    """
    logits = np.where(masks, scores[:, None, :], -np.inf)
    shifted = logits - logits.max(axis=2, keepdims=True)
    odds = np.exp(shifted)
    total = odds.sum(axis=2)
    probabilities = odds / total[:, :, None]
    of_picks = np.take_along_axis(shifted, picks[:, :, None], axis=2)[:, :, 0] - np.log(total)
    expected = (probabilities * np.where(masks, shifted, 0.0)).sum(axis=2)
    return PickLogprobs(of_picks, probabilities, np.log(total) - expected)
