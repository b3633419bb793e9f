"""Accuracy by topic: what a mean over all documents hides."""

from collections.abc import Mapping, Sequence

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from precis.report.charts import Chart, Theme, axes_in, headline, shorten
from precis.report.wording import Words
from precis.statistics.intervals import Interval
from precis.statistics.standings import Contender, accuracy_of, rows_by, scores_by_scenario

Topics = Mapping[str, Mapping[Contender, Interval]]

_WIDTH = 8.4
_ROW = 0.29
_CHARACTER = 0.085


def accuracy_by_topic(frame: pl.DataFrame, contenders: Sequence[Contender]) -> Topics:
    """Return the accuracy of each contender on the documents of each topic, where any was
    scored."""
    topics: dict[str, dict[Contender, Interval]] = {}
    for contender in contenders:
        rows = rows_by(frame, contender)
        for topic in sorted(rows["topic"].drop_nulls().replace("", None).drop_nulls().unique()):
            accuracy = accuracy_of(scores_by_scenario(rows.filter(pl.col("topic") == topic)))
            if accuracy is not None:
                topics.setdefault(topic, {})[contender] = accuracy
    return dict(sorted(topics.items()))


def by_topic(
    topics: Topics, two: Sequence[Contender], names: Sequence[str], words: Words | None = None
) -> Chart:
    """Draw all contenders on each topic as dots, one or two of them named.

    `two` are whom the chart is about, in whose order topics stand, and whom to compare with.
    """
    first = two[0]

    def place(topic: str) -> float:
        return -topics[topic][first].mean if first in topics[topic] else 1.0

    ordered = sorted(topics, key=place)
    size = (_WIDTH, 1.75 + _ROW * max(1, len(ordered)))
    title = f"{(words or Words()).measure.capitalize()}, by topic"
    means = [f"{each} {topics[each][first].mean:.0%}" for each in ordered if first in topics[each]]

    def draw(figure: Figure, theme: Theme) -> None:
        headline(figure, theme, size, title, "Every contender is a dot; 95% interval of the first")
        labels = list(map(shorten, ordered))
        widest = max(map(len, labels), default=0)
        axes = axes_in(figure, theme, size, (0.4 + _CHARACTER * widest, 0.5, 0.35, 1.25))
        axes.set_xlim(-0.01, 1.01)
        axes.set_ylim(max(1, len(ordered)) - 0.5, -0.5)
        axes.set_yticks(range(len(ordered)), labels)
        axes.tick_params(axis="y", labelcolor=theme.ink)
        axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        axes.grid(axis="both", color=theme.grid, linewidth=0.9)
        for row, topic in enumerate(ordered):
            _draw_row(axes, theme, row, topics[topic], two)
        # The marks differ in shape, so that colour is not needed.
        keys = [*zip("◆■", (theme.accent, theme.second), map(shorten, names), strict=False)]
        x = 0.22
        for mark, colour, name in [*keys, ("●", theme.muted, "the others")]:
            figure.text(x / size[0], 1 - 0.95 / size[1], f"{mark}  {name}", color=colour, size=10)
            x += 0.45 + _CHARACTER * len(name)

    return Chart(draw, size, f"{title}, {names[0]}: {'; '.join(means)}")


def _draw_row(
    axes: Axes,
    theme: Theme,
    row: int,
    found: Mapping[Contender, Interval],
    two: Sequence[Contender],
) -> None:
    others = [each.mean for contender, each in found.items() if contender not in two]
    axes.plot(others, [row] * len(others), "o", color=theme.muted, markersize=4, alpha=0.5)
    first = found.get(two[0])
    second = found.get(two[1]) if len(two) > 1 else None
    if first:
        axes.plot([first.low, first.high], [row, row], color=theme.accent, linewidth=1.6, alpha=0.6)
    if second:
        axes.plot([second.mean], [row], "s", color=theme.second, markersize=6.5)
    if first:
        axes.plot([first.mean], [row], "D", color=theme.accent, markersize=7)
