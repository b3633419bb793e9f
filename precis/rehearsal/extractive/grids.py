"""The sentences that each pick is drawn from."""

from collections.abc import Sequence

import numpy as np

from precis.rehearsal.kind import Bools, Integers


def candidates(words: Integers, picks: Sequence[int], words_max: int) -> Bools:
    """Mark the sentences that each pick was drawn from, unpicked and still fitting: (picks,
    sentences)."""
    at = np.array(picks, dtype=np.int64)
    turn = np.arange(len(at))
    picked_at = np.full(len(words), len(at))
    picked_at[at] = turn
    left = words_max - np.append(0, np.cumsum(words[at])[:-1])
    return (words[None, :] <= left[:, None]) & (picked_at[None, :] >= turn[:, None])
