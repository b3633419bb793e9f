"""The policy: a linear score for each sentence, and Plackett–Luce picks until the budget is full.

A pick is drawn from the softmax of the scores of the sentences that are unpicked and still fit.
"""

import hashlib
from collections.abc import Sequence

import numpy as np

from precis.rehearsal.distributions import pick_logprobs
from precis.rehearsal.extractive.features import Features
from precis.rehearsal.extractive.samples import candidates
from precis.rehearsal.kind import Floats, LinearPolicy

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
