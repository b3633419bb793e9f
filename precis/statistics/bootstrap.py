"""The cluster bootstrap: what a figure would have been with other documents like these."""

from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

NORMAL = NormalDist()

BLOCK = 200
"""Resamples that are held in memory at a time."""


def bca_bounds(
    part: Floats, whole: Floats, confidence: float, seed: int, resamples: int
) -> tuple[float, float]:
    """Return the interval of `sum(part) / sum(whole)` when documents are drawn anew.

    Percentiles of the resampled ratios, corrected for bias and skew (BCa; Efron, 1987; DiCiccio and
    Efron, "Bootstrap Confidence Intervals", 1996) and widened for few documents as Hesterberg does
    ("What Teachers Should Know about the Bootstrap", 2015, section 3.2.2).
    """
    generator = np.random.default_rng(seed)
    blocks = []  # so that thousands of documents do not take gigabytes
    for start in range(0, resamples, BLOCK):
        shape = (min(BLOCK, resamples - start), len(part))
        picks = generator.integers(0, len(part), shape)
        blocks.append(part[picks].sum(axis=1) / whole[picks].sum(axis=1))
    ratios = np.concatenate(blocks)
    mean = part.sum() / whole.sum()
    # Ratios are of whole numbers and often tie with the estimate: half of the ties lie below it.
    below = np.mean(ratios < mean) + np.mean(ratios == mean) / 2
    bias = NORMAL.inv_cdf(float(np.clip(below, 1 / resamples, 1 - 1 / resamples)))
    # A sixth of the skewness of what each document does to the ratio.
    influence = part - mean * whole
    spread = float(np.sum(influence**2) ** 1.5)
    acceleration = float(np.sum(influence**3)) / (6 * spread) if spread else 0.0
    reach = widened(NORMAL.inv_cdf((1 + confidence) / 2), len(part))
    ends = []
    for side in (-1, 1):
        shift = bias + side * reach
        ends.append(NORMAL.cdf(bias + shift / max(1 - acceleration * shift, 1e-6)))
    low, high = np.quantile(ratios, ends)
    return float(low), float(high)


def widened(z: float, documents: int) -> float:
    """Return a normal quantile, widened to Student's t and to the unbiased variance."""
    freedom = documents - 1
    # Cornish-Fisher expansion of Student's quantile (Abramowitz & Stegun 26.7.5).
    t = z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
    return float(t * np.sqrt(documents / freedom))
