"""The charts of a benchmark, by the name of their file; and the bars of the comparison."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from precis.report.charts import Chart, Theme, axes_in, headline, shorten
from precis.report.curve import CurveWords, StepPoint, learning_curve
from precis.report.nights import NightlyAccuracy, over_nights
from precis.report.topics import Topics, by_topic
from precis.report.wording import Words, name
from precis.statistics.intervals import Interval
from precis.statistics.standings import Contender, Standing, contenders_of

_WIDTH = 8.4
_ROW = 0.40


def curve_picture(
    standings: Iterable[Standing],
    curve: Sequence[StepPoint],
    ceiling: float | None,
    words: Words,
) -> dict[str, Chart]:
    """`learning-curve`, where something was trained; the other contenders are level lines."""
    if not curve:
        return {}
    levels = {}
    for each in select_ranked(standings):
        if each.contender.step is None and each.accuracy and each.accuracy.mean:
            levels[each.contender.model] = each.accuracy.mean
    title = f"Held-out {words.measure}, by training step"
    shown = CurveWords(title, _subtitle(words), words.is_share)
    return {"learning-curve": learning_curve(curve, levels, ceiling, shown)}


def turns_picture(turns: Mapping[Contender, Interval], words: Words) -> dict[str, Chart]:
    """`turns`, where several checkpoints have successes; the other contenders are level lines."""
    points = []
    levels = {}
    for contender, found in turns.items():
        if contender.step is None:
            levels[contender.model] = found.mean
        else:
            points.append(StepPoint(contender.step, accuracy=found))
    if len(points) < 2:
        return {}
    title = "Turns that a success takes, by training step"
    shown = CurveWords(title, f"On held-out {words.nouns.scenarios}, greedy", is_share=False)
    return {"turns": learning_curve(points, levels, None, shown)}


def bars_picture(
    shown: Iterable[Standing], trained: Contender | None, ceiling: float | None, words: Words
) -> dict[str, Chart]:
    """`comparison`: every ranked contender as a bar."""
    bars = []
    for each in select_ranked(shown):
        if each.accuracy:
            bars.append(Bar(name(each.contender), each.accuracy, each.contender == trained))
    return {"comparison": comparison(bars, ceiling, words)}


def topics_picture(
    topics: Topics, shown: Iterable[Standing], trained: Contender | None, words: Words
) -> dict[str, Chart]:
    """`topics`, where there are two or more: the trained policy and the best of the others."""
    order = contenders_of(select_ranked(shown))
    two = sorted(order, key=lambda each: each != trained)[:2]
    if not two or len(topics) < 2 or not words.is_share:
        return {}
    return {"topics": by_topic(topics, two, list(map(name, two)), words)}


def nights_picture(
    nights: Sequence[NightlyAccuracy], worse: Iterable[Contender], words: Words
) -> dict[str, Chart]:
    """`nights`, where there are two or more."""
    if len({each.night for each in nights}) < 2:
        return {}
    return {"nights": over_nights(nights, [each.model for each in worse], words)}


def select_ranked(standings: Iterable[Standing]) -> list[Standing]:
    """Those that are complete and scored: the only ones that pictures compare."""
    return [each for each in standings if each.complete and each.accuracy]


@dataclass(frozen=True)
class Bar:
    """One contender of the comparison; what is trained here is emphasised."""

    label: str
    accuracy: Interval
    emphasised: bool = False


def comparison(
    bars: Iterable[Bar], ceiling: float | None = None, words: Words | None = None
) -> Chart:
    """Return the measure of all contenders, best first, with 95 % intervals."""
    words = words or Words()
    title = f"{words.measure.capitalize()} on held-out {words.nouns.scenarios}"
    ordered = sorted(bars, key=lambda bar: -bar.accuracy.mean)
    size = (_WIDTH, 1.25 + _ROW * max(1, len(ordered)))
    alt = "; ".join(f"{bar.label} {words.interval(bar.accuracy)}" for bar in ordered)
    low, high = 0.0, 1.0
    if ordered and not words.is_share:
        low = min(0.0, *(bar.accuracy.low for bar in ordered))
        high = max(0.0, *(bar.accuracy.high for bar in ordered))
        high = high if high > low else low + 1.0

    def draw(figure: Figure, theme: Theme) -> None:
        headline(figure, theme, size, title, f"{_subtitle(words)}; 95% interval")
        labels = [shorten(bar.label) for bar in ordered]
        widest = max(map(len, labels), default=0)
        axes = axes_in(figure, theme, size, (0.4 + 0.085 * widest, 0.25, 1.85, 1.0))
        axes.set_xlim(low, high)
        axes.set_ylim(max(1, len(ordered)) - 0.5, -0.5)
        axes.set_xticks([])
        axes.set_yticks(range(len(ordered)), labels)
        for row, (bar, tick) in enumerate(zip(ordered, axes.get_yticklabels(), strict=True)):
            tick.set(color=theme.ink, weight="bold" if bar.emphasised else "normal")
            _draw_bar(axes, theme, row, bar, words)
        if ceiling is not None:
            axes.axvline(ceiling, color=theme.ink, linewidth=1.2, linestyle=(0, (1, 2)))
            text = f"ceiling {ceiling:.0%}"
            axes.text(ceiling, -0.62, text, color=theme.muted, size=9, ha="center", va="bottom")

    return Chart(draw, size, f"{title}: {alt}")


def _subtitle(words: Words) -> str:
    return words.nouns.achieved or f"On held-out {words.nouns.scenarios}, greedy"


def _draw_bar(axes: Axes, theme: Theme, row: int, bar: Bar, words: Words) -> None:
    colour = theme.accent if bar.emphasised else theme.bar
    accuracy = bar.accuracy
    axes.barh(row, accuracy.mean, height=0.62, color=colour)
    axes.plot(
        [accuracy.low, accuracy.high],
        [row, row],
        color=theme.ink,
        linewidth=1.4,
        marker="|",
        markersize=6,
        solid_capstyle="butt",
    )
    weight = "bold" if bar.emphasised else "normal"
    right = axes.get_xlim()[0] + 1.04 * (axes.get_xlim()[1] - axes.get_xlim()[0])
    value = words.figure(accuracy.mean)
    axes.text(right, row, value, color=theme.ink, va="center", weight=weight)
    ends = words.bounds(accuracy)
    if words.is_share:
        ends = f"{accuracy.low:.0%} to {accuracy.high:.0%}"
    axes.annotate(
        ends,
        (right, row),
        (52, 0),
        textcoords="offset points",
        color=theme.muted,
        size=9,
        va="center",
        annotation_clip=False,
    )
