"""From rows of results to the table: one line for each contender."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from precis.records.results import metric
from precis.statistics.bootstrap import Floats
from precis.statistics.intervals import Interval, ratio_interval

UNSCORED_SHARE_MAX = 0.1
"""A contender with a larger share of unscored summaries is incomplete, and not ranked."""


@dataclass(frozen=True)
class Contender:
    """Who wrote the summaries: a model, and its checkpoint's step where it is trained here."""

    model: str
    step: int | None = None

    def __str__(self) -> str:
        return self.model if self.step is None else f"{self.model}@{self.step}"


@dataclass(frozen=True)
class Standing:
    """One line of the table.

    Attributes:
        accuracy: share of answerable questions answered from the summary alone; None where no
            summary was scored.
        honesty: share of unanswerable questions that the summary did not seem to answer.
        words: mean length of the scored summaries.
        over_length: share of the scored summaries over the word limit.
        prose: mean share of a summary that is prose, and so of its score that it keeps.
        answered: share of the questions that the summaries answer, prose or not.
        documents: how many documents were scored.
        unscored: documents without a verdict, by cause; they are in no other figure.
        usd: what writing the summaries cost; None where unknown.
        usd_per_1000: what a thousand documents cost at that price; None where unknown.
        seconds: median time to write one; None where unknown.
        complete: whether so few are unscored that the contender can be ranked.
    """

    contender: Contender
    accuracy: Interval | None
    honesty: float | None
    words: float | None
    over_length: float | None
    prose: float | None
    answered: float | None
    documents: int
    unscored: Mapping[str, int]
    usd: float | None
    usd_per_1000: float | None
    seconds: float | None
    complete: bool


def summarise(
    frame: pl.DataFrame, unscored_share_max: float = UNSCORED_SHARE_MAX
) -> list[Standing]:
    """The standings of one run: complete contenders by falling accuracy, then the others.

    Args:
        frame: rows in `precis.records.results.SCHEMA`.
        unscored_share_max: share of unscored documents up to which a contender is ranked.
    """
    groups = frame.partition_by(["model", "step"], maintain_order=True)
    standings = [_standing(group, unscored_share_max) for group in groups]
    return sorted(standings, key=_rank)


def scores_by_scenario(frame: pl.DataFrame) -> pl.DataFrame:
    """Columns scenario_id, score, weight: of the scenarios that have a score."""
    return (
        frame.filter(pl.col("score").is_not_null())
        .group_by("scenario_id")
        .agg(pl.col("score").sum(), pl.col("weight").sum())
        .sort("scenario_id")
    )


def contenders(frame: pl.DataFrame) -> list[Contender]:
    """Everyone who has rows, in a fixed order."""
    found = frame.select("model", "step").unique().sort("model", "step")
    return [Contender(model, step) for model, step in found.iter_rows()]


def contenders_of(standings: Iterable[Standing]) -> list[Contender]:
    """Whose standings they are, in their order."""
    return [standing.contender for standing in standings]


def newest(found: Iterable[Contender]) -> list[Contender]:
    """Those that no later checkpoint of the same model has followed."""
    ordered = sorted(found, key=lambda each: -1 if each.step is None else each.step)
    return list({each.model: each for each in ordered}.values())


def rows_by(frame: pl.DataFrame, contender: Contender) -> pl.DataFrame:
    """The rows of one contender."""
    return frame.filter(
        pl.col("model") == contender.model, pl.col("step").eq_missing(pl.lit(contender.step))
    )


def _standing(group: pl.DataFrame, unscored_share_max: float) -> Standing:
    scored = group.filter(pl.col("cause").is_null())
    counts = scores_by_scenario(group)
    unanswerable = _total(scored.select(metric("unanswerable")).to_series())
    declined = _total(scored.select(metric("declined")).to_series())
    missing = group["cause"].drop_nulls().value_counts(sort=True)
    return Standing(
        contender=Contender(group["model"][0], group["step"][0]),
        accuracy=accuracy_of(counts),
        honesty=(declined or 0.0) / unanswerable if unanswerable else None,
        words=_mean(scored.select(metric("words")).to_series()),
        over_length=_mean(scored.select(metric("over_length")).to_series()),
        prose=_mean(scored.select(metric("prose")).to_series()),
        answered=_answered(scored),
        documents=len(scored),
        unscored=dict(missing.iter_rows()),
        usd=_total(group["usd"]),
        usd_per_1000=_scale(_mean(group["usd"]), 1000),
        seconds=_median(group["seconds"]),
        complete=len(group) - len(scored) <= unscored_share_max * len(group),
    )


def accuracy_of(counts: pl.DataFrame) -> Interval | None:
    """The score over scenarios as `scores_by_scenario` counts them; None without any."""
    if counts.is_empty():
        return None
    return ratio_interval(counts["score"].to_numpy(), counts["weight"].to_numpy())


def _rank(standing: Standing) -> tuple[bool, float, str, int]:
    accuracy = standing.accuracy.mean if standing.accuracy else -1.0
    step = -1 if standing.contender.step is None else standing.contender.step
    return not standing.complete, -accuracy, standing.contender.model, step


def _answered(scored: pl.DataFrame) -> float | None:
    answered = _total(scored.select(metric("answered")).to_series())
    asked = _total(scored["weight"])
    return answered / asked if answered is not None and asked else None


def _mean(values: pl.Series) -> float | None:
    return float(np.mean(_drop_nulls(values))) if values.count() else None


def _median(values: pl.Series) -> float | None:
    return float(np.median(_drop_nulls(values))) if values.count() else None


def _total(values: pl.Series) -> float | None:
    return float(np.sum(_drop_nulls(values))) if values.count() else None


def _scale(value: float | None, by: float) -> float | None:
    return None if value is None else by * value


def _drop_nulls(values: pl.Series) -> Floats:
    return values.cast(pl.Float64).drop_nulls().to_numpy()
