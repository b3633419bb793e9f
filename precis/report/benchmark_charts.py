"""The charts of a benchmark, by file name."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from precis.report.benchmark_view import Benchmark, Topics, select_ranked
from precis.report.charts import Chart, Theme, add_legend, shorten, titled_axes
from precis.report.curve import CurveWords, StepPoint, learning_curve
from precis.report.nights import over_nights
from precis.report.wording import Words, name
from precis.statistics.intervals import Interval
from precis.statistics.standings import Contender, contenders_of

_WIDTH = 8.4
_MARKERS = "Dso^vPX*"
"""Different shapes, so that colour is not needed."""


def charts_of(benchmark: Benchmark) -> dict[str, Chart]:
    """Return the charts with data.

    `learning-curve`, for a trained model, and `turns`, if several checkpoints have successes, have
    a level line for each other contender. `comparison` has a bar for each ranked contender,
    `topics` and `nights` need at least two of them.
    """
    words = benchmark.words
    charts = {}
    if benchmark.curve:
        levels = {}
        for each in select_ranked(benchmark.standings):
            if each.contender.step is None and each.accuracy and each.accuracy.mean:
                levels[each.contender.model] = each.accuracy.mean
        title = f"Held-out {words.measure}, by training step"
        shown = CurveWords(title, words.nouns.subtitle, words.is_share)
        charts["learning-curve"] = learning_curve(benchmark.curve, levels, benchmark.ceiling, shown)
    points = []
    levels = {}
    for contender, found in benchmark.turns.items():
        if contender.step is None:
            levels[contender.model] = found.mean
        else:
            points.append(StepPoint(contender.step, accuracy=found))
    if len(points) > 1:
        title = "Turns that a success takes, by training step"
        shown = CurveWords(title, f"On held-out {words.nouns.scenarios}, greedy", is_share=False)
        charts["turns"] = learning_curve(points, levels, None, shown)
    ranked = select_ranked(benchmark.shown)
    bars = []
    for each in ranked:
        if each.accuracy:
            is_trained = each.contender == benchmark.trained
            bars.append(Bar(name(each.contender), each.accuracy, is_trained))
    charts["comparison"] = comparison(bars, benchmark.ceiling, words)
    # The trained policy and the best of the others come first.
    order = sorted(contenders_of(ranked), key=lambda each: each != benchmark.trained)
    if order and len(benchmark.topics) > 1 and words.is_share:
        charts["topics"] = by_topic(benchmark.topics, order, words)
    if len({each.night for each in benchmark.nights}) > 1:
        worse = [each.contender.model for each in benchmark.regressions]
        charts["nights"] = over_nights(benchmark.nights, worse, words)
    return charts


@dataclass(frozen=True)
class Bar:
    """One contender of the comparison; the trained model is emphasised."""

    label: str
    accuracy: Interval
    emphasised: bool = False


def comparison(
    bars: Iterable[Bar], ceiling: float | None = None, words: Words | None = None
) -> Chart:
    """Draw the measure of all contenders, best first, with 95 % intervals."""
    words = words or Words()
    title = f"{words.measure.capitalize()} on held-out {words.nouns.scenarios}"
    ordered = sorted(bars, key=lambda bar: -bar.accuracy.mean)
    alt = "; ".join(f"{bar.label} {words.interval(bar.accuracy)}" for bar in ordered)

    def draw(figure: Figure, theme: Theme) -> None:
        axes = titled_axes(figure, theme, title, f"{words.nouns.subtitle}; 95% interval")
        for row, bar in enumerate(ordered):
            accuracy = bar.accuracy
            container = axes.barh(
                row,
                accuracy.mean,
                height=0.62,
                color=theme.accent if bar.emphasised else theme.bar,
                xerr=[[accuracy.mean - accuracy.low], [accuracy.high - accuracy.mean]],
                error_kw={"ecolor": theme.ink, "elinewidth": 1.4, "capsize": 3},
            )
            weight = "bold" if bar.emphasised else "normal"
            shown = [words.interval(accuracy)]
            axes.bar_label(container, shown, padding=6, color=theme.ink, size=9.5, weight=weight)
        axes.set_yticks(range(len(ordered)), [shorten(bar.label) for bar in ordered])
        axes.tick_params(axis="y", labelcolor=theme.ink)
        axes.invert_yaxis()
        axes.set_xticks([])
        axes.grid(visible=False)
        if words.is_share:
            axes.set_xlim(0, 1)
        if ceiling is not None:
            label = f"ceiling {ceiling:.0%}"
            axes.axvline(ceiling, color=theme.ink, linewidth=1.2, linestyle=":", label=label)
            add_legend(figure, theme)

    return Chart(draw, (_WIDTH, 1.25 + 0.40 * max(1, len(ordered))), f"{title}: {alt}")


def by_topic(topics: Topics, order: Sequence[Contender], words: Words | None = None) -> Chart:
    """Draw contenders on each topic as marks, those of the first with intervals; topics are ordered
    by its accuracy."""
    first = order[0]
    own = {topic: found[first] for topic, found in topics.items() if first in found}
    rows = sorted(topics, key=lambda topic: -own[topic].mean if topic in own else 1.0)
    title = f"{(words or Words()).measure.capitalize()}, by topic"
    shown = [f"{topic} {own[topic].mean:.0%}" for topic in rows if topic in own]

    def draw(figure: Figure, theme: Theme) -> None:
        axes = titled_axes(figure, theme, title, "95% interval of the first")
        for place, contender in enumerate(order):
            at = []
            means = []
            lows = []
            highs = []
            for row, topic in enumerate(rows):
                if contender in topics[topic]:
                    accuracy = topics[topic][contender]
                    at.append(row)
                    means.append(accuracy.mean)
                    lows.append(accuracy.low)
                    highs.append(accuracy.high)
            colour = theme.colours[min(place, 4)]
            axes.plot(
                means,
                at,
                linestyle="",
                marker=_MARKERS[place % len(_MARKERS)],
                color=colour,
                label=shorten(name(contender)),
            )
            if contender == first:
                axes.hlines(at, lows, highs, color=colour, linewidth=1.6, alpha=0.6)
        axes.set_xlim(-0.01, 1.01)
        axes.set_yticks(range(len(rows)), list(map(shorten, rows)))
        axes.tick_params(axis="y", labelcolor=theme.ink)
        axes.invert_yaxis()
        axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        if order:
            add_legend(figure, theme)

    size = (_WIDTH, 1.75 + 0.29 * max(1, len(rows)))
    return Chart(draw, size, f"{title}, {name(first)}: {'; '.join(shown)}")
