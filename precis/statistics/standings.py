"""From rows of results to the table: one line for each contender, and their paired differences."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import comb

import numpy as np
import polars as pl

from precis.records.nouns import Figure
from precis.records.results import metric
from precis.statistics.intervals import (
    Difference,
    Floats,
    Interval,
    holm,
    paired_difference,
    ratio_interval,
)

UNSCORED_SHARE_MAX = 0.1
"""A contender with a larger share of unscored rollouts is incomplete, and not ranked."""


@dataclass(frozen=True)
class Contender:
    """The author of rollouts: a model, and its checkpoint's step if it is trained here."""

    model: str
    step: int | None = None

    def __str__(self) -> str:
        return self.model if self.step is None else f"{self.model}@{self.step}"


Pair = tuple[Contender, Contender]


@dataclass(frozen=True)
class Standing:
    """One line of the table.

    Attributes:
        accuracy: the sum of the scores over that of the weights; None without a scored rollout.
        documents: how many scenarios the accuracy is of.
        unscored: scenarios without a score, by cause; of the other figures only costs count them.
        usd_per_1000: the cost of a thousand rollouts.
        is_bound: whether that is an upper bound, since replies did not count their tokens.
        complete: whether so few are unscored that the contender can be ranked.
    """

    contender: Contender
    accuracy: Interval | None
    documents: int
    unscored: Mapping[str, int]
    usd_per_1000: float | None
    is_bound: bool
    complete: bool


def metric_names(frame: pl.DataFrame) -> list[str]:
    """Return the names of the rows' metrics, in the order in which they first appear."""
    names: dict[str, None] = {}
    for encoded in frame["metrics"].drop_nulls():
        names.update(dict.fromkeys(json.loads(encoded)))
    return list(names)


def figure_of(rows: pl.DataFrame, figure: Figure) -> float | None:
    """Return a figure of the metrics of a contender's scored rollouts; None if none has them."""
    parts = _values(rows, figure.part)
    if not len(parts):
        return None
    if not figure.whole:
        return float(np.mean(parts))
    whole = float(np.sum(_values(rows, figure.whole)))
    return float(np.sum(parts)) / whole if whole else None


def count_with(rows: pl.DataFrame, name: str) -> tuple[int, int]:
    """Return how many of a contender's scored rollouts have a metric, and how many are scored."""
    return len(_values(rows, name)), rows["cause"].null_count()


def success_of(rows: pl.DataFrame) -> Interval | None:
    """Return the share of successes with Wilson's interval; None if they are not counted."""
    known = _values(rows, "success")
    return ratio_interval(known, np.ones(len(known))) if len(known) else None


def turns_of_successes(rows: pl.DataFrame) -> Interval | None:
    """Return the mean number of turns of a success; None without a success."""
    turns = _values(rows.filter(metric("success") > 0), "turns")
    return ratio_interval(turns, np.ones(len(turns)), of_share=False) if len(turns) else None


def pass_at(rows: pl.DataFrame, k: int) -> tuple[Interval | None, int]:
    """Return a contender's pass@k with its interval, None if unknown, and the number of scenarios
    that it is of: those with at least k scored attempts (`precis.records.results.ATTEMPTS`).

    For each it is unbiased (Chen et al., "Evaluating Large Language Models Trained on Code", 2021,
    section 2.1): the chance that k attempts, drawn without replacement, include a success.
    """
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
        values.append(1.0 - comb(attempts - int(successes), k) / comb(attempts, k))
    return ratio_interval(values, np.ones(len(values))) if values else None, len(values)


def sizes_up_to(attempts: int) -> Sequence[int]:
    """Return the k to show for a number of attempts: the powers of two up to it, and it."""
    sizes = [2**power for power in range(attempts.bit_length()) if 2**power <= attempts]
    return [*sizes, attempts] if attempts and attempts not in sizes else sizes


def summarise(frame: pl.DataFrame) -> list[Standing]:
    """Return the standings of one run: complete contenders by falling accuracy, then the others,
    with a larger share of unscored rollouts."""
    standings = []
    for group in frame.partition_by(["model", "step"], maintain_order=True):
        counts = scores_by_scenario(group)
        missing = group["cause"].drop_nulls()
        usd = group["usd"].drop_nulls().to_numpy()
        standing = Standing(
            contender=Contender(group["model"][0], group["step"][0]),
            accuracy=accuracy_of(counts),
            documents=len(counts),
            unscored=dict(missing.value_counts(sort=True).iter_rows()),
            usd_per_1000=1000 * float(np.mean(usd)) if len(usd) else None,
            is_bound=has_bound(group),
            complete=len(missing) <= UNSCORED_SHARE_MAX * len(group),
        )
        standings.append(standing)

    def rank(standing: Standing) -> tuple[bool, float, str, int]:
        accuracy = standing.accuracy.mean if standing.accuracy else -1.0
        step = -1 if standing.contender.step is None else standing.contender.step
        return not standing.complete, -accuracy, standing.contender.model, step

    return sorted(standings, key=rank)


def has_bound(rows: pl.DataFrame) -> bool:
    """Return whether the dollars of some rollouts are an upper bound, since replies did not count
    their tokens."""
    return not rows.filter(pl.col("usd") > 0, pl.col("prompt_tokens") == 0).is_empty()


def scores_by_scenario(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the scored scenarios, with the columns scenario_id, score and weight."""
    return (
        frame.filter(pl.col("score").is_not_null())
        .group_by("scenario_id")
        .agg(pl.col("score").sum(), pl.col("weight").sum())
        .sort("scenario_id")
    )


def contenders(frame: pl.DataFrame) -> list[Contender]:
    """Return all contenders with rows, in a fixed order."""
    found = frame.select("model", "step").unique().sort("model", "step")
    return [Contender(model, step) for model, step in found.iter_rows()]


def newest(found: Iterable[Contender]) -> list[Contender]:
    """Return the contenders, of each model's checkpoints only the newest."""
    ordered = sorted(found, key=lambda each: -1 if each.step is None else each.step)
    return list({each.model: each for each in ordered}.values())


def rows_by(frame: pl.DataFrame, contender: Contender) -> pl.DataFrame:
    return frame.filter(
        pl.col("model") == contender.model, pl.col("step").eq_missing(pl.lit(contender.step))
    )


def accuracy_of(counts: pl.DataFrame) -> Interval | None:
    """Return the score over scenarios as `scores_by_scenario` counts them; None without any."""
    if counts.is_empty():
        return None
    return ratio_interval(counts["score"].to_numpy(), counts["weight"].to_numpy())


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
    shared = align(first, second)
    return paired_difference(*shared) if len(shared[0]) else None


def correct_p_values(found: Sequence[Difference]) -> list[Difference]:
    """Return the same differences, their p-values corrected for their number (Holm, 1979)."""
    p_values = holm([each.p_value for each in found])
    return [replace(each, p_value=one) for each, one in zip(found, p_values, strict=True)]


def align(first: pl.DataFrame, second: pl.DataFrame) -> tuple[Floats, Floats, Floats, Floats]:
    """Return the scores of the first and of the second on the scenarios that both were scored on,
    their weights, and how many times as much the second's rows weigh."""
    both = scores_by_scenario(first).join(
        scores_by_scenario(second), on="scenario_id", suffix="_2", maintain_order="left"
    )
    nights = both["weight_2"] / both["weight"]
    second_score = (both["score_2"] / nights).to_numpy()
    return both["score"].to_numpy(), second_score, both["weight"].to_numpy(), nights.to_numpy()


def _values(rows: pl.DataFrame, name: str) -> Floats:
    """Return a metric of the scored rollouts that have it."""
    scored = rows.filter(pl.col("cause").is_null())
    return scored.select(metric(name)).to_series().drop_nulls().to_numpy()
