"""pass@k: how often one of k attempts at a scenario is a success."""

from collections.abc import Sequence
from math import comb

import numpy as np
import polars as pl

from precis.records.results import metric
from precis.statistics.intervals import Interval, ratio_interval


def estimate_pass(successes: int, attempts: int, k: int) -> float:
    """Return the unbiased estimate of pass@k of one scenario with at least k attempts.

    Chen et al., "Evaluating Large Language Models Trained on Code" (2021), section 2.1: the chance
    that k of the attempts, drawn without putting back, hold a success.
    """
    if attempts < k:
        raise ValueError(f"pass@{k} takes {k} attempts, and there are {attempts}")
    return 1.0 - comb(attempts - successes, k) / comb(attempts, k)


def pass_at(rows: pl.DataFrame, k: int) -> Interval | None:
    """Return a contender's pass@k with its interval, over scenarios with at least k scored attempts
    (`precis.records.results.ATTEMPTS`); None where it is not known."""
    scored = rows.filter(pl.col("cause").is_null()).with_columns(success=metric("success"))
    counted = (
        scored.filter(pl.col("success").is_not_null())
        .group_by("scenario_id")
        .agg(pl.col("success").sum(), pl.len().alias("attempts"))
        .filter(pl.col("attempts") >= k)
        .sort("scenario_id")
    )
    values = []
    for _, successes, attempts in counted.iter_rows():
        values.append(estimate_pass(int(successes), attempts, k))
    return ratio_interval(values, np.ones(len(values))) if values else None


def sizes_up_to(attempts: int) -> Sequence[int]:
    """Return the k to show of so many attempts: the powers of two up to it, and it."""
    sizes = [2**power for power in range(attempts.bit_length()) if 2**power <= attempts]
    return [*sizes, attempts] if attempts and attempts not in sizes else sizes
