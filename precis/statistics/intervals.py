"""The quality of a contender, and how sure one can be of it. A document's questions stand or fall
together, so whole documents are resampled (a cluster bootstrap), never single questions."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

NORMAL = NormalDist()
CONFIDENCE = 0.95
RESAMPLES = 4000
DOCUMENTS_MIN = 5
"""With fewer documents, figures that rest on their spread are not shown: the bootstrap's interval
would hold the truth too seldom."""

# Random swaps of the permutation test: no p-value can be smaller than one in so many.
_SWAPS = 20_000
_BLOCK = 200
"""Resamples in memory at a time."""


@dataclass(frozen=True)
class Interval:
    """An estimate and its 95 % confidence interval; both ends are the estimate where there is too
    little to tell."""

    mean: float
    low: float
    high: float

    @property
    def ends(self) -> tuple[float, float] | tuple[None, None]:
        """The ends; two None where there is too little to tell."""
        return (self.low, self.high) if self.low < self.high else (None, None)

    def __str__(self) -> str:
        return f"{self.mean:.1%} ({self.low:.1%} to {self.high:.1%})"

    def __truediv__(self, whole: float) -> "Interval":
        """Return the interval as a share of a fixed number, such as the judge's ceiling."""
        return Interval(self.mean / whole, self.low / whole, self.high / whole)


@dataclass(frozen=True)
class Difference:
    """The difference of two contenders on the documents that both were scored on, with a two-sided
    p-value: how often chance alone would separate them as far. `is_none` says whether the two are
    alike on every single document."""

    accuracy: Interval
    p_value: float
    documents: int
    is_none: bool = False

    @property
    def chance(self) -> str:
        """The p-value as it is written; a permutation test finds none of zero."""
        return "p < 0.001" if self.p_value < 0.001 else f"p = {self.p_value:.3f}"


def ratio_interval(
    parts: npt.ArrayLike, wholes: npt.ArrayLike, *, of_share: bool = True
) -> Interval:
    """Return `sum(parts) / sum(wholes)` with its 95 % interval from a bootstrap over the pairs.

    A pair is a document: its correct answers and its questions, above zero. If each is won or lost,
    the interval is Wilson's (`share_interval`). If all documents have the same share right, it has
    the exact bound of Clopper and Pearson (1934) for the share of such documents; of the others
    anything from none to all may be right. A share on fewer than `DOCUMENTS_MIN` documents has an
    interval from 0 to 1, unless each is won or lost. A ratio that is not a share, such as a reward
    of any size, has none on so few, nor where all documents have the same. For such a ratio
    `of_share` is False, even if it is between 0 and 1. Raises ValueError without a document, or for
    a whole that is not positive.
    """
    part = np.asarray(parts, float)
    whole = np.asarray(wholes, float)
    if not len(part) or len(part) != len(whole) or np.any(whole <= 0):
        raise ValueError("an interval needs one part for each whole, and wholes above zero")
    if of_share and np.all(whole == 1) and np.all((part == 0) | (part == 1)):
        return share_interval(int(part.sum()), len(part))
    bounds = (0.0, 1.0) if of_share and _are_shares(part, whole) else None
    return _interval(part, whole, bounds, bounds)


def bca_bounds(
    part: Floats,
    whole: Floats,
    confidence: float = CONFIDENCE,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> tuple[float, float]:
    """Return the interval of `sum(part) / sum(whole)` over resampled documents.

    Percentiles of the resampled ratios, corrected for bias and skew (BCa; Efron, 1987; DiCiccio and
    Efron, "Bootstrap Confidence Intervals", 1996) and widened for few documents as Hesterberg does
    ("What Teachers Should Know about the Bootstrap", 2015, section 3.2.2).
    """
    generator = np.random.default_rng(seed)
    blocks = []  # so that thousands of documents do not take gigabytes
    for start in range(0, resamples, _BLOCK):
        shape = (min(_BLOCK, resamples - start), len(part))
        picks = generator.integers(0, len(part), shape)
        blocks.append(part[picks].sum(axis=1) / whole[picks].sum(axis=1))
    ratios = np.concatenate(blocks)
    mean = part.sum() / whole.sum()
    # Ratios are of whole numbers and often tie with the estimate: half of the ties lie below it.
    below = np.mean(ratios < mean) + np.mean(ratios == mean) / 2
    bias = NORMAL.inv_cdf(float(np.clip(below, 1 / resamples, 1 - 1 / resamples)))
    # A sixth of the skewness of the documents' influences on the ratio.
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


def share_interval(successes: int, count: int) -> Interval:
    """Return the share of successes of one or more independent trials, with Wilson's 95 % interval
    (1927)."""
    share = successes / count
    z = NORMAL.inv_cdf((1 + CONFIDENCE) / 2)
    centre = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    spread = z * math.sqrt(share * (1 - share) / count + z**2 / (4 * count**2))
    half = spread / (1 + z**2 / count)
    # Rounding would put the interval of none, or of all, beside its own share.
    low = centre - half if successes else 0.0
    high = centre + half if successes < count else 1.0
    return Interval(share, low, high)


def paired_difference(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    asked: npt.ArrayLike,
    nights: npt.ArrayLike = 1,
) -> Difference:
    """Compare two contenders by their correct answers on the same documents, and the questions
    asked.

    The interval is the cluster bootstrap of the difference; the p-value comes from a permutation
    test that swaps the two contenders' answers document by document. It takes the mean of several
    nights for a single one, and so finds too much where nearly all documents are won, or lost. If
    each is won or lost, the p-value is therefore at least that of an exact test, for which all
    nights are alike. `nights` is the number of nights of which the second's answers are the mean,
    by document.
    """
    gains = _gains(first, second)
    generator = np.random.default_rng(0)
    # Gains over the mean of several nights are fractions: ties are ties up to rounding.
    observed = abs(gains.sum()) - 1e-9 * np.abs(gains).sum()
    as_far = 0
    for _ in range(0, _SWAPS, _BLOCK):
        swapped = generator.integers(0, 2, (_BLOCK, len(gains)), dtype=np.int8)
        as_far += int(np.sum(np.abs(gains.sum() - 2 * (swapped @ gains)) >= observed))
    interval = paired_interval(first, second, asked)
    p_value = (as_far + 1) / (_SWAPS + 1)
    one, whole, times = (np.asarray(values, float) for values in (first, asked, nights))
    wins = np.asarray(second, float) * times
    if np.all(whole == 1) and _are_wins(one, whole) and _are_wins(wins, times):
        shares = (one + wins) / (1 + times)
        chances = np.ones(1)  # of each number of wins, none to all
        for share in shares:
            chances = np.convolve(chances, [1 - share, share])
        apart = np.abs(np.arange(len(chances)) - shares.sum())
        exact = chances[apart >= abs(one.sum() - shares.sum()) - 1e-9].sum()
        p_value = max(p_value, min(1.0, float(exact)))
    return Difference(interval, p_value, len(gains), is_none=not gains.any())


def paired_interval(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    asked: npt.ArrayLike,
    confidence: float = CONFIDENCE,
) -> Interval:
    """Return the first's accuracy minus the second's, with its cluster bootstrap interval.

    If the difference is the same on all documents, the interval has the bound of `ratio_interval`.
    Beside these there may then be documents with a difference as large the other way, or with any
    in the same direction; where these have none, with any. So it excludes zero where the p-value
    is below 0.05. A measure that is not a share has no largest difference: its interval
    then reaches as far up as down; where it differs on fewer than `DOCUMENTS_MIN`, it has none.
    """
    one, other, whole = (np.asarray(values, float) for values in (first, second, asked))
    gains = _gains(one, other)
    bounds = (-1.0, 1.0) if _are_shares(one, whole) and _are_shares(other, whole) else None
    size = abs(float(gains.sum() / whole.sum()))
    most = 1.0 if bounds else 3 * size
    least = -size if gains.sum() > 0 else -most
    greatest = size if gains.sum() < 0 else most
    return _interval(gains, whole, bounds, (least, greatest), confidence)


def _gains(first: npt.ArrayLike, second: npt.ArrayLike) -> Floats:
    """Return the differences, of which those by rounding alone are none."""
    one, other = np.asarray(first, float), np.asarray(second, float)
    return np.where(np.isclose(one, other, rtol=1e-9, atol=0), 0.0, one - other)


def _interval(
    part: Floats,
    whole: Floats,
    bounds: tuple[float, float] | None,
    beside: tuple[float, float] | None,
    confidence: float = CONFIDENCE,
) -> Interval:
    """Return a ratio with its interval.

    Args:
        bounds: the least and the greatest of a document; None if unknown.
        beside: the same of documents beside some that are all alike.
    """
    total = float(part.sum())
    if abs(total) <= 1e-9 * np.abs(part).sum():
        total = 0.0  # differences whose sum is none up to rounding
    mean = total / float(whole.sum())
    if bounds and len(part) < DOCUMENTS_MIN:
        return Interval(mean, *bounds)
    # Relative to their size, for rewards may be small.
    differs = not np.allclose(part, mean * whole, rtol=1e-9, atol=0)
    if differs and len(part) >= DOCUMENTS_MIN:
        return Interval(mean, *bca_bounds(part, whole, confidence))
    if differs or beside is None:
        return Interval(mean, mean, mean)
    alike = ((1 - confidence) / 2) ** (1 / len(part))
    least, greatest = beside
    low = least + (mean - least) * alike
    return Interval(mean, low, greatest - (greatest - mean) * alike)


def _are_shares(parts: Floats, wholes: Floats) -> bool:
    return bool(np.all((parts >= 0) & (parts <= wholes)))


def _are_wins(parts: Floats, wholes: Floats) -> bool:
    is_whole = np.isclose(parts, np.rint(parts), rtol=1e-9, atol=0)
    return _are_shares(np.rint(parts), wholes) and bool(np.all(is_whole))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values corrected for being many (Holm, 1979), in the order given."""
    corrected = [1.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        largest = max(largest, (len(p_values) - rank) * p_values[index])
        corrected[index] = min(1.0, largest)
    return corrected


def documents_needed(first: Floats, second: Floats, asked: Floats) -> int | None:
    """Return how many documents a paired comparison needs to detect a difference of three points in
    accuracy with 80 % power, by the answers of a pilot; None if that has fewer than five, or if the
    two differ by the same on each."""
    gains = first - second
    if len(gains) < DOCUMENTS_MIN or np.allclose(gains / asked, gains[0] / asked[0]):
        return None
    spread = np.std((gains - asked * gains.sum() / asked.sum()) / asked.mean(), ddof=1)
    reach = NORMAL.inv_cdf((1 + CONFIDENCE) / 2) + NORMAL.inv_cdf(0.8)
    return max(2, int(np.ceil((reach * spread / 0.03) ** 2)))
