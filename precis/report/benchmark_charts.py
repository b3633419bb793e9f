"""The charts of a benchmark, by file name."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from precis.report.benchmark_view import Benchmark, Topics, select_ranked
from precis.report.charts import Chart, Theme, add_legend, shorten, titled_axes
from precis.report.curve import Curve, learning_curve
from precis.report.nights import over_nights
from precis.report.wording import Words, name
from precis.statistics.intervals import DOCUMENTS_MIN, Interval
from precis.statistics.standings import Contender

_WIDTH = 8.4
_TOPICS_MAX = 200
"""The most topics in a chart: the picture of more would be too large."""
_MARKERS = "Dso^vPX*"
"""Different shapes, so that colour is not needed."""


def charts_of(benchmark: Benchmark) -> dict[str, Chart]:
    """Return the charts with data.

    `learning-curve`, for a trained model, and `turns`, if several checkpoints have successes, have
    a level line for each other contender. `comparison` has a bar for each ranked contender,
    `topics` and `nights` need at least two of them, and `topics` no more than a page can show.
    """
    words = benchmark.words
    charts = {}
    curve = benchmark.curve
    if curve.rewards or curve.held_out:
        levels = {}
        for contender, accuracy in select_ranked(benchmark.standings).items():
            if contender.step is None and accuracy.mean:
                levels[contender.model] = accuracy.mean
        charts["learning-curve"] = learning_curve(
            curve,
            levels,
            benchmark.ceiling,
            title=f"Held-out {words.measure}, by training step",
            subtitle=words.nouns.subtitle,
            is_share=words.is_share,
        )
    turns = {}
    levels = {}
    for contender, found in benchmark.turns.items():
        if contender.step is None:
            levels[contender.model] = found.mean
        else:
            turns[contender.step] = found
    if len(turns) > 1:
        charts["turns"] = learning_curve(
            Curve(held_out=turns),
            levels,
            title="Turns that a success takes, by training step",
            subtitle=f"On held-out {words.nouns.scenarios}, greedy",
            is_share=False,
        )
    ranked = benchmark.ranked
    charts["comparison"] = comparison(ranked, benchmark.trained, benchmark.ceiling, words)
    # The trained policy and the best of the others come first.
    order = sorted(ranked, key=lambda each: each != benchmark.trained)
    if order and 1 < len(benchmark.topics) <= _TOPICS_MAX and words.is_share:
        charts["topics"] = by_topic(benchmark.topics, order, words)
    if len({each.night for each in benchmark.nights}) > 1:
        worse = [each.contender.model for each in benchmark.comparison.regressions]
        charts["nights"] = over_nights(benchmark.nights, worse, words)
    return charts


def comparison(
    measured: Mapping[Contender, Interval],
    trained: Contender | None,
    ceiling: float | None,
    words: Words,
) -> Chart:
    """Draw the measure of all contenders, best first, with 95 % intervals; the trained model is
    emphasised."""
    title = f"{words.measure.capitalize()} on held-out {words.nouns.scenarios}"
    ordered = sorted(measured.items(), key=lambda pair: -pair[1].mean)
    alt = "; ".join(f"{name(each)} {words.interval(accuracy)}" for each, accuracy in ordered)
    subtitle = words.nouns.subtitle
    if any(accuracy.low < accuracy.high for accuracy in measured.values()):
        subtitle += "; 95 % interval"

    def draw(figure: Figure, theme: Theme) -> None:
        axes = titled_axes(figure, theme, title, subtitle)
        for row, (each, accuracy) in enumerate(ordered):
            axes.barh(
                row,
                accuracy.mean,
                height=0.62,
                color=theme.accent if each == trained else theme.bar,
                xerr=[[accuracy.mean - accuracy.low], [accuracy.high - accuracy.mean]],
                error_kw={"ecolor": theme.ink, "elinewidth": 1.4, "capsize": 3},
            )
            axes.annotate(
                words.interval(accuracy),
                (max(0.0, accuracy.high), row),  # left of a negative bar it would be on its name
                (6, 0),
                textcoords="offset points",
                va="center",
                color=theme.ink,
                size=9.5,
                weight="bold" if each == trained else "normal",
            )
        axes.set_yticks(range(len(ordered)), [shorten(name(each)) for each, _ in ordered])
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


def by_topic(topics: Topics, order: Sequence[Contender], words: Words) -> Chart:
    """Draw contenders on each topic as marks, those of the first with intervals, unless these say
    nothing; topics are ordered by its accuracy."""
    first = order[0]
    own = {topic: found[first] for topic, found in topics.items() if first in found}
    rows = sorted(topics, key=lambda topic: -own[topic].mean if topic in own else 1.0)
    title = f"{words.measure.capitalize()}, by topic"
    bounded = [topic for topic, accuracy in own.items() if accuracy.high - accuracy.low < 1]
    subtitle = f"On held-out {words.nouns.scenarios}"  # a longer one has no room beside the topics
    if bounded:
        subtitle += f"; 95 % interval of the first on {DOCUMENTS_MIN} or more"
    shown = [f"{topic} {own[topic].mean:.0%}" for topic in rows if topic in own]

    def draw(figure: Figure, theme: Theme) -> None:
        axes = titled_axes(figure, theme, title, subtitle)
        for place, contender in enumerate(order):
            at = []
            means = []
            for row, topic in enumerate(rows):
                if contender in topics[topic]:
                    at.append(row)
                    means.append(topics[topic][contender].mean)
            colour = theme.colours[min(place, 4)]
            axes.plot(
                means,
                at,
                linestyle="",
                marker=_MARKERS[place % len(_MARKERS)],
                color=colour,
                label=shorten(name(contender)),
            )
        for topic in bounded:
            ends = (own[topic].low, own[topic].high)
            axes.hlines(rows.index(topic), *ends, color=theme.accent, linewidth=1.6, alpha=0.6)
        axes.set_xlim(-0.01, 1.01)
        axes.set_yticks(range(len(rows)), list(map(shorten, rows)))
        axes.tick_params(axis="y", labelcolor=theme.ink)
        axes.invert_yaxis()
        axes.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        add_legend(figure, theme)

    size = (_WIDTH, 1.75 + 0.29 * max(1, len(rows)))
    return Chart(draw, size, f"{title}, {name(first)}: {'; '.join(shown)}")
