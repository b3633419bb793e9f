"""The comparisons of contenders: paired over the documents that both were scored on."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from precis.statistics.intervals import (
    DOCUMENTS_MIN,
    Difference,
    Floats,
    documents_needed,
    holm,
    paired_difference,
)
from precis.statistics.standings import Contender, rows_by, scores_by_scenario

Pair = tuple[Contender, Contender]


def differences(frame: pl.DataFrame, pairs: Iterable[Pair]) -> dict[Pair, Difference]:
    """Compare the first of each pair with the second, on the documents they share.

    The p-values are corrected for the number of comparisons. Pairs that share no scored document
    are left out.
    """
    found = {}
    for first, second in pairs:
        measured = difference(rows_by(frame, first), rows_by(frame, second))
        if measured is not None:
            found[first, second] = measured
    return dict(zip(found, correct_p_values(list(found.values())), strict=True))


def difference(first: pl.DataFrame, second: pl.DataFrame) -> Difference | None:
    """Compare the rows of two contenders, or of one on two nights, over the scenarios that both
    were scored on; None without any. Several rows of a scenario count with their mean."""
    shared = _align(first, second)
    return paired_difference(*shared) if len(shared[0]) else None


def correct_p_values(found: Sequence[Difference]) -> list[Difference]:
    """Return the same differences, their p-values corrected for their number (Holm, 1979)."""
    p_values = holm([each.p_value for each in found])
    return [replace(each, p_value=one) for each, one in zip(found, p_values, strict=True)]


def documents_to_see(first: pl.DataFrame, second: pl.DataFrame) -> int | None:
    """Return how many documents it takes to detect a difference of three points in accuracy between
    two such contenders, at 80 % power; None with fewer than five in common, or if the two differ by
    the same on each."""
    one, other, asked = _align(first, second)
    gains = one / asked - other / asked
    if len(gains) < DOCUMENTS_MIN or np.allclose(gains, gains[0]):
        return None
    return documents_needed(one, other, asked)


def _align(first: pl.DataFrame, second: pl.DataFrame) -> tuple[Floats, Floats, Floats]:
    """Return the scores of the first and of the second on the scenarios that both were scored on,
    and their weights."""
    both = scores_by_scenario(first).join(
        scores_by_scenario(second), on="scenario_id", suffix="_2", maintain_order="left"
    )
    second_score = both["score_2"] / both["weight_2"] * both["weight"]
    return both["score"].to_numpy(), second_score.to_numpy(), both["weight"].to_numpy()
