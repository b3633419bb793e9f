"""The changes of contenders: tonight's results against those of earlier nights."""

from dataclasses import dataclass, replace
from itertools import product

import polars as pl

from precis.statistics.comparisons import correct_p_values, difference
from precis.statistics.intervals import CONFIDENCE, Difference
from precis.statistics.standings import Contender, contenders, newest, rows_by

COMPARABLE = ("judge", "protocol", "prompts_digest", "corpus_digest")
"""The columns that must be the same on two nights for their figures to be comparable."""


@dataclass(frozen=True)
class NightlyChange:
    """The change of a contender since earlier nights, over the scenarios scored on both; its
    p-value is corrected for the number of compared contenders.

    Attributes:
        before: the contender of earlier nights: itself, or the newest checkpoint.
        is_share: whether the measure is between 0 and 1, and its difference in points.
    """

    contender: Contender
    before: Contender
    difference: Difference
    is_share: bool = True

    @property
    def is_regression(self) -> bool:
        """True if worse beyond chance: the paired interval excludes zero, and the corrected p-value
        agrees, or a dozen contenders would raise a false alarm every fourth night."""
        interval = self.difference.accuracy
        return interval.high < 0 and self.difference.p_value <= 1 - CONFIDENCE

    def __str__(self) -> str:
        since = "" if self.before == self.contender else f" against {self.before}"
        unit = " points" if self.is_share else ""
        gap = self.difference.accuracy.gap(is_share=self.is_share)
        bounds = self.difference.accuracy.gap_bounds(is_share=self.is_share)
        return (
            f"{self.contender}: {gap}{unit}{since} ({bounds}) on {self.difference.documents} "
            f"scenarios, corrected {self.difference.chance}"
        )


def comparable(before: pl.DataFrame, tonight: pl.DataFrame) -> pl.DataFrame:
    """Return the earlier rows of the same judge, protocol, prompts and corpus as tonight's."""
    origins = tonight.select(COMPARABLE).unique()
    return before.join(origins, on=COMPARABLE, how="semi", nulls_equal=True)


def changes(
    tonight: pl.DataFrame, before: pl.DataFrame, is_share: bool = True
) -> list[NightlyChange]:
    """Compare every contender with itself, and the newest checkpoint with the newest before it;
    worst first.

    The earlier rows must be comparable. If a contender has the same score as before on every
    document, no test can detect a difference; it is listed, but not counted among the comparisons
    (Tarone, 1990).
    """
    then_there = contenders(before)
    pairs = [(each, each) for each in contenders(tonight) if each in then_there]
    for now, then in product(newest(contenders(tonight)), newest(then_there)):
        if now.model == then.model and now.step != then.step:
            pairs.append((now, then))
    found = []
    different = []
    for now, then in pairs:
        change = difference(rows_by(tonight, now), rows_by(before, then))
        if change is None:
            continue
        if change.is_none:
            found.append(NightlyChange(now, then, change, is_share))
        else:
            different.append(NightlyChange(now, then, change, is_share))
    corrected = correct_p_values([each.difference for each in different])
    for each, change in zip(different, corrected, strict=True):
        found.append(replace(each, difference=change))
    return sorted(found, key=lambda each: each.difference.accuracy.mean)
