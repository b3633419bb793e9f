"""Benchmarks of several nights: what has changed, in words, as an event and as a chart."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from precis.records.nouns import Nouns
from precis.report.charts import (
    Chart,
    Size,
    Theme,
    axes_in,
    headline,
    shade_intervals,
    shorten,
)
from precis.report.labels import Label, label_ends
from precis.report.wording import Words, name
from precis.statistics.intervals import Interval
from precis.statistics.nights import NightlyChange
from precis.statistics.standings import contenders, newest, rows_by, summarise

REGRESSION = "precis.benchmark.regression"
"""The event that a benchmark emits when a contender is worse than before, beyond chance."""

_SIZE: Size = (8.4, 4.6)
_CHARACTER = 0.078
_TICKS_MAX = 7
_STYLES: tuple[tuple[float, ...], ...] = ((), (5, 2), (1.5, 1.5), (6, 2, 1.5, 2))
"""Dashes, so that neighbouring grey lines can be followed."""


@dataclass(frozen=True)
class NightlyAccuracy:
    """The result of a contender on one night; a trained model is its newest checkpoint."""

    night: datetime
    model: str
    accuracy: Interval
    trained: bool = False


def nights_of(frames: Iterable[pl.DataFrame]) -> list[NightlyAccuracy]:
    """Return every complete contender of every night, of a trained model the newest checkpoint; the
    rows' column `night` is when theirs began."""
    by_night: list[pl.DataFrame] = []
    for frame in frames:
        by_night.extend(frame.partition_by("night"))
    by_night.sort(key=lambda rows: rows["night"][0])
    found = []
    for rows in by_night:
        # Without the checkpoints that a later one has followed.
        last = pl.concat(rows_by(rows, each) for each in newest(contenders(rows)))
        for standing in summarise(last):
            if standing.complete and standing.accuracy:
                model = standing.contender.model
                is_trained = standing.contender.step is not None
                night = rows["night"][0]
                found.append(NightlyAccuracy(night, model, standing.accuracy, is_trained))
    return found


def over_nights(
    nights: Iterable[NightlyAccuracy], worse: Iterable[str] = (), words: Words | None = None
) -> Chart:
    """Return a line for each contender, named at its end; those in `worse` carry a triangle."""
    lines: dict[str, list[NightlyAccuracy]] = {}
    ordered = sorted(nights, key=lambda each: each.night)
    for each in ordered:
        lines.setdefault(each.model, []).append(each)
    times = sorted({each.night for each in ordered})
    words = words or Words()
    title = f"{words.measure.capitalize()}, night by night"
    subtitle = words.nouns.achieved or f"On held-out {words.nouns.scenarios}, greedy"
    flagged = frozenset(worse)
    newest = [f"{model} {words.figure(line[-1].accuracy.mean)}" for model, line in lines.items()]
    alt = f"{title}, {len(times)} nights; the last: {'; '.join(newest)}"

    def draw(figure: Figure, theme: Theme) -> None:
        headline(figure, theme, _SIZE, title, subtitle)
        widest = max((len(shorten(model)) for model in lines), default=0)
        right = 0.75 + _CHARACTER * (widest + len("  not tonight"))
        axes = axes_in(figure, theme, _SIZE, (0.68, 0.62, right, 0.92))
        axes.grid(axis="y", color=theme.grid, linewidth=0.9)
        _scale(axes, ordered, times, words.is_share)
        labels = []
        for index, line in enumerate(lines.values()):
            dashes = _STYLES[index % len(_STYLES)]
            labels.append(_line(axes, theme, line, times, flagged, dashes, words))
        label_ends(axes, labels)

    return Chart(draw, _SIZE, alt)


def _line(
    axes: Axes,
    theme: Theme,
    line: Sequence[NightlyAccuracy],
    times: Sequence[datetime],
    worse: frozenset[str],
    dashes: Sequence[float],
    words: Words,
) -> Label:
    last = line[-1]
    colour = theme.accent if last.trained else theme.muted
    days = [times.index(each.night) for each in line]
    accuracies = [each.accuracy for each in line]
    if last.trained:
        shade_intervals(axes, days, accuracies, colour)
    axes.plot(
        days,
        [each.mean for each in accuracies],
        color=colour,
        linewidth=2.2 if last.trained else 1.2,
        marker="o",
        markersize=4.5 if last.trained else 2.5,
        dashes=(None, None) if last.trained or not dashes else tuple(dashes),
        clip_on=False,
        zorder=3 if last.trained else 2,
    )
    if last.model in worse:
        axes.plot(
            [days[-1]],
            [last.accuracy.mean],
            "v",
            color=theme.second,
            markersize=9,
            zorder=4,
            clip_on=False,
        )
    mark = "▼ " if last.model in worse else ""
    named = theme.second if mark else colour
    mean = last.accuracy.mean
    figure = f"{mean:.0%}" if words.is_share else words.figure(mean)
    figure = figure if last.night == times[-1] else "not tonight"
    return Label(f"{mark}{shorten(last.model)}  {figure}", mean, named, last.trained)


def _scale(
    axes: Axes, nights: Sequence[NightlyAccuracy], times: Sequence[datetime], is_share: bool
) -> None:
    """Nights stand side by side, however far apart they are in time."""
    shown = range(0, len(times), max(1, -(-len(times) // _TICKS_MAX)))
    names = []
    for night in (times[place] for place in shown):
        several = sum(each.date() == night.date() for each in times) > 1
        names.append(f"{night:%-d %b %H:%M}" if several else f"{night:%-d %b}")
    axes.set_xticks(list(shown), names)
    axes.set_xlim(-0.05, max(len(times) - 1, 1))
    if not is_share:
        return
    ends: list[float] = []
    for each in nights:
        mean = each.accuracy.mean
        ends += [each.accuracy.low, each.accuracy.high] if each.trained else [mean]
    ends = ends or [0.0, 1.0]
    # The axis begins and ends at a multiple of ten points.
    low = (min(ends) - 0.03) // 0.1 * 0.1
    high = -(-(max(ends) + 0.03) // 0.1) * 0.1
    axes.set_ylim(max(0.0, low), min(1.0, high))
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))


def nightly_section(changes: Sequence[NightlyChange], nights: int, nouns: Nouns) -> str:
    """Markdown: every contender that can be compared, worst first; empty where none can be."""
    if not changes:
        return ""
    unit = "Points" if changes[0].is_share else "Difference"
    lines = [
        "",
        f"**{verdict_in_words(changes, nights)}**",
        "",
        f"| Since {_earlier(nights)} | {unit} | 95 % interval | p, corrected "
        f"| {nouns.scenarios.capitalize()} |",
        "| --- | --- | --- | --- | --- |",
    ]
    for each in changes:
        p_value = each.difference.p_value
        corrected = "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"
        cells = [name(each.contender), each.gap, each.gap_bounds, corrected]
        lines.append(f"| {' | '.join(cells)} | {each.difference.documents} |")
    return "\n".join([*lines, ""])


def verdict_in_words(changes: Sequence[NightlyChange], nights: int) -> str:
    """One sentence: who is worse, or that nobody is."""
    if not changes:
        return "There is no comparable benchmark before this one."
    worse = [str(each) for each in changes if each.is_regression]
    if not worse:
        return f"No contender is worse than on {_earlier(nights)}, beyond chance."
    return f"Worse than on {_earlier(nights)}: {'; '.join(worse)}."


def regression_payload(
    changes: Sequence[NightlyChange], nights: int, model: str, report: str
) -> dict[str, Any]:
    """Return the payload of the event: a sentence for people, and the figures for programs."""
    regressions = []
    for change in changes:
        if not change.is_regression:
            continue
        difference = change.difference
        # Points to two decimals, and a difference of rewards as finely: rewards may be small.
        unit, scale, digits = ("points", 100, 2) if change.is_share else ("difference", 1, 4)
        told = {
            "contender": str(change.contender),
            "before": str(change.before),
            unit: round(scale * difference.accuracy.mean, digits),
            "low": round(scale * difference.accuracy.low, digits),
            "high": round(scale * difference.accuracy.high, digits),
            "p_value": difference.p_value,
            "documents": difference.documents,
        }
        regressions.append(told)
    return {
        "model": model,
        "report": report,
        "message": verdict_in_words(changes, nights),
        "nights": nights,
        "regressions": regressions,
    }


def _earlier(nights: int) -> str:
    return "the benchmark before" if nights == 1 else f"the {nights} benchmarks before"
