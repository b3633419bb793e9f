"""The further figures of a benchmark's table, by heading and contender, as they are written."""

from collections.abc import Mapping, Sequence

import polars as pl

from precis.records.nouns import COMPARED, PREFERRED, Figure
from precis.report.wording import Words, heading, number, percent
from precis.statistics.attempts import pass_at, sizes_up_to
from precis.statistics.intervals import Interval
from precis.statistics.standings import (
    Contender,
    Standing,
    count_with,
    figure_of,
    metric_names,
    rows_by,
    success_of,
    turns_of_successes,
)

Columns = Mapping[str, Mapping[Contender, str]]


def columns_of(
    frame: pl.DataFrame, attempts: pl.DataFrame, standings: Sequence[Standing], words: Words
) -> Columns:
    """Return the columns of an environment: those that it names, or what an agent has.

    That is the mean of each metric, the turns that a success takes, the reward, the share of
    successes where that is not the measure, pass@k, and the tokens of a rollout.

    Args:
        attempts: what was sampled besides, in `precis.records.results.ATTEMPTS`.
    """
    rows = {each.contender: rows_by(frame, each.contender) for each in standings}
    if words.columns is not None:
        return {heading(one.name): _figures(one, rows) for one in words.columns}
    known = {words.measure, "success", "reward", PREFERRED, COMPARED}
    columns: dict[str, Mapping[Contender, str]] = {}
    for name in metric_names(frame):
        if name not in known:
            columns[heading(name)] = _means(name, rows)
    has_successes = any(success_of(one) for one in rows.values())
    if has_successes:
        turns = {each: _turns(turns_of_successes(one)) for each, one in rows.items()}
        columns["Turns of a success"] = turns
    if words.measure != words.nouns.reward and "reward" in metric_names(frame):
        columns[heading(words.nouns.reward)] = _means("reward", rows)
    if has_successes and words.measure != words.nouns.success:
        shares = {each: _share(success_of(one)) for each, one in rows.items()}
        columns[heading(words.nouns.success)] = shares
    for k in sizes_up_to(attempts["attempt"].n_unique()):
        found = {each: pass_at(rows_by(attempts, each), k) for each in rows}
        if any(found.values()):
            columns[f"pass@{k}"] = {each: _share(share) for each, share in found.items()}
    for name in ("prompt_tokens", "completion_tokens"):
        if frame[name].count():
            means = {each: number(_mean(one[name])) for each, one in rows.items()}
            columns[f"{heading(name)} a {words.nouns.rollout}"] = means
    return columns


def _figures(figure: Figure, rows: Mapping[Contender, pl.DataFrame]) -> dict[Contender, str]:
    column = {}
    for contender, one in rows.items():
        value = figure_of(one, figure)
        column[contender] = percent(value) if figure.is_share else number(value)
    return column


def _means(name: str, rows: Mapping[Contender, pl.DataFrame]) -> dict[Contender, str]:
    """Return the mean of a metric; where only some rollouts have it, with how many."""
    column = {}
    for contender, one in rows.items():
        mean = number(figure_of(one, Figure(name, name)))
        having, scored = count_with(one, name)
        column[contender] = f"{mean} (of {having})" if 0 < having < scored else mean
    return column


def _turns(turns: Interval | None) -> str:
    if turns is None:
        return ""
    return f"{number(turns.mean)} ({number(turns.low)} to {number(turns.high)})"


def _share(share: Interval | None) -> str:
    if share is None:
        return ""
    return f"{percent(share.mean)} ({percent(share.low)} to {percent(share.high)})"


def _mean(values: pl.Series) -> float | None:
    mean = values.cast(pl.Float64).mean()
    return float(mean) if isinstance(mean, float) else None
