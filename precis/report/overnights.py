"""Accuracy over nights: whether anybody drifts, the judge included."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from precis.report.canvas import Chart, Label, Size, Theme, axes_in, headline, label_ends, shorten
from precis.statistics.intervals import Interval
from precis.statistics.standings import Standing, contenders, newest, rows_by, summarise

_HEIGHT = 4.6
_WIDTH = 8.4
_CHARACTER = 0.078
_TICKS_MAX = 7
_LABEL_GAP = 0.062
_STYLES: tuple[tuple[float, ...], ...] = ((), (5, 2), (1.5, 1.5), (6, 2, 1.5, 2))
"""Dashes, so that neighbouring grey lines can be followed."""


@dataclass(frozen=True)
class NightlyAccuracy:
    """What a contender achieved on one night; a trained model is its newest checkpoint."""

    night: datetime
    model: str
    accuracy: Interval
    trained: bool = False


def nights_of(frames: Iterable[pl.DataFrame]) -> list[NightlyAccuracy]:
    """Every complete contender of every night; of a trained model the newest checkpoint.

    Args:
        frames: rows of one night or of several; their column `night` is when it began.
    """
    by_night = [each for frame in frames for each in frame.partition_by("night")]
    return [
        NightlyAccuracy(
            rows["night"][0], standing.contender.model, standing.accuracy, _is_trained(standing)
        )
        for rows in sorted(by_night, key=lambda rows: rows["night"][0])
        for standing in summarise(_newest(rows))
        if standing.complete and standing.accuracy
    ]


def over_nights(nights: Iterable[NightlyAccuracy], worse: Iterable[str] = ()) -> Chart:
    """A line for each contender, named at its end; those in `worse` carry a triangle."""
    lines: dict[str, list[NightlyAccuracy]] = {}
    for each in sorted(nights, key=lambda each: each.night):
        lines.setdefault(each.model, []).append(each)
    title = "Accuracy, night by night"
    flagged = frozenset(worse)
    said = (f"{model} {line[-1].accuracy.mean:.1%}" for model, line in lines.items())
    count = len({each.night for line in lines.values() for each in line})
    alt = f"{title}, {count} nights; the last: {'; '.join(said)}"
    return Chart(partial(_draw, lines, flagged, title), (_WIDTH, _HEIGHT), alt)


def _is_trained(standing: Standing) -> bool:
    return standing.contender.step is not None


def _newest(frame: pl.DataFrame) -> pl.DataFrame:
    """Without the checkpoints that a later one has followed."""
    return pl.concat(rows_by(frame, each) for each in newest(contenders(frame)))


def _draw(
    lines: Mapping[str, Sequence[NightlyAccuracy]],
    worse: frozenset[str],
    title: str,
    figure: Figure,
    theme: Theme,
) -> None:
    size: Size = (_WIDTH, _HEIGHT)
    subtitle = (
        "Share of answerable questions answered from the summary alone, on held-out documents"
    )
    headline(figure, theme, size, title, subtitle)
    widest = max((len(shorten(model)) for model in lines), default=0)
    axes = axes_in(
        figure, theme, size, (0.68, 0.62, 0.75 + _CHARACTER * (widest + len("  not tonight")), 0.92)
    )
    nights = [each for line in lines.values() for each in line]
    times = sorted({each.night for each in nights})
    _scale(axes, theme, nights, times)
    labels = [
        _line(axes, theme, line, times, worse, _STYLES[index % len(_STYLES)])
        for index, line in enumerate(lines.values())
    ]
    low, high = axes.get_ylim()
    label_ends(axes, labels, gap=(high - low) * min(_LABEL_GAP, 1 / max(1, len(labels))))


def _line(
    axes: Axes,
    theme: Theme,
    line: Sequence[NightlyAccuracy],
    times: Sequence[datetime],
    worse: frozenset[str],
    dashes: Sequence[float],
) -> Label:
    last = line[-1]
    colour = theme.accent if last.trained else theme.muted
    days = [times.index(each.night) for each in line]
    if last.trained:
        lows = [each.accuracy.low for each in line]
        highs = [each.accuracy.high for each in line]
        axes.fill_between(days, lows, highs, color=colour, alpha=0.16, linewidth=0)
    axes.plot(
        days,
        [each.accuracy.mean for each in line],
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
    figure = f"{last.accuracy.mean:.0%}" if last.night == times[-1] else "not tonight"
    return Label(f"{mark}{shorten(last.model)}  {figure}", last.accuracy.mean, named, last.trained)


def _scale(
    axes: Axes, theme: Theme, nights: Sequence[NightlyAccuracy], times: Sequence[datetime]
) -> None:
    """Nights stand side by side, however far apart they are in time."""
    shown = range(0, len(times), max(1, -(-len(times) // _TICKS_MAX)))
    axes.set_xticks(list(shown), [_when(times[place], times) for place in shown])
    axes.set_xlim(-0.05, max(len(times) - 1, 1))
    means = [end for each in nights for end in _reach(each)] or [0.0, 1.0]
    axes.set_ylim(
        max(0.0, (min(means) - 0.03) // 0.1 * 0.1), min(1.0, -(-(max(means) + 0.03) // 0.1) * 0.1)
    )
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.grid(axis="y", color=theme.grid, linewidth=0.9)


def _when(night: datetime, nights: Sequence[datetime]) -> str:
    """The date, and the hour where a day has several."""
    several = sum(each.date() == night.date() for each in nights) > 1
    return f"{night:%-d %b %H:%M}" if several else f"{night:%-d %b}"


def _reach(night: NightlyAccuracy) -> tuple[float, ...]:
    accuracy = night.accuracy
    return (accuracy.low, accuracy.high) if night.trained else (accuracy.mean,)
