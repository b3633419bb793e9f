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
    """Return the columns that an environment names, or what an agent has: the mean of each metric,
    the turns of a success, the reward, the successes, pass@k (of `attempts`) and the tokens."""
    rows = {each.contender: rows_by(frame, each.contender) for each in standings}
    if words.columns is not None:
        named = {}
        for figure in words.columns:
            write = percent if figure.is_share else number
            named[heading(figure.name)] = {
                contender: write(figure_of(one, figure)) for contender, one in rows.items()
            }
        return named
    known = {words.measure, "success", "reward", PREFERRED, COMPARED}
    columns: dict[str, Mapping[Contender, str]] = {}
    for name in metric_names(frame):
        if name not in known:
            columns[heading(name)] = _means(name, rows)
    has_successes = any(success_of(one) for one in rows.values())
    if has_successes:
        turns = {each: turns_of_successes(one) for each, one in rows.items()}
        columns["Turns of a success"] = _with_intervals(turns, is_share=False)
    if words.measure != words.nouns.reward and "reward" in metric_names(frame):
        columns[heading(words.nouns.reward)] = _means("reward", rows)
    if has_successes and words.measure != words.nouns.success:
        shares = {each: success_of(one) for each, one in rows.items()}
        columns[heading(words.nouns.success)] = _with_intervals(shares, is_share=True)
    for k in sizes_up_to(attempts["attempt"].n_unique()):
        found = {each: pass_at(rows_by(attempts, each), k) for each in rows}
        if any(found.values()):
            columns[f"pass@{k}"] = _with_intervals(found, is_share=True)
    for name in ("prompt_tokens", "completion_tokens"):
        if frame[name].count():
            means = {}
            for each, one in rows.items():
                mean = one[name].cast(pl.Float64).mean()
                means[each] = number(mean if isinstance(mean, float) else None)
            columns[f"{heading(name)} a {words.nouns.rollout}"] = means
    return columns


def _means(name: str, rows: Mapping[Contender, pl.DataFrame]) -> dict[Contender, str]:
    """Return the mean of a metric; where only some rollouts have it, with how many."""
    column = {}
    for contender, one in rows.items():
        mean = number(figure_of(one, Figure(name, name)))
        having, scored = count_with(one, name)
        column[contender] = f"{mean} (of {having})" if 0 < having < scored else mean
    return column


def _with_intervals(
    found: Mapping[Contender, Interval | None], *, is_share: bool
) -> dict[Contender, str]:
    words = Words(is_share=is_share)
    return {contender: words.interval(interval) for contender, interval in found.items()}
