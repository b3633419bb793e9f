"""Curves of several runs in one chart, with a legend."""

from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from precis.records.ledger import TURNS, Ledger
from precis.report.charts import (
    Chart,
    Size,
    Theme,
    axes_in,
    headline,
    shade_intervals,
    shorten,
)
from precis.report.curve import interval_of
from precis.statistics.intervals import Interval

Points = Sequence[tuple[int, Interval]]
"""By step; where a value has no interval, both of its ends are the value."""

_SIZE: Size = (8.4, 4.0)
_MARGINS = (0.68, 0.62, 2.6, 0.92)
_GREEN = "#009e73"  # Okabe and Ito's, like the theme's own
_PURPLE = "#cc79a7"
_MARKERS = "osD^vPX*"
_MARKERS_MAX = 12
"""Markers of a line: they tell lines apart without their colours, and must not melt into one."""


def overlays(ledgers: Mapping[str, Ledger]) -> list[Chart]:
    """Return the held-out score, the reward and the turns to success by step, where known."""
    scores: dict[str, Points] = {}
    rewards: dict[str, Points] = {}
    turns: dict[str, Points] = {}
    measures: dict[str, bool] = {}
    for name, ledger in ledgers.items():
        scores[name] = [(one.step, interval_of(one.score)) for one in ledger.validations]
        measures.update((one.measure, one.score.is_share) for one in ledger.validations)
        rewards[name] = [(one.step, _exact(one.reward)) for one in ledger.steps]
        taken = [one for one in ledger.steps if TURNS in one.metrics]
        turns[name] = [(one.step, _exact(one.metrics[TURNS])) for one in taken]
    measured = " or ".join(measures) or "score"
    is_share = bool(measures) and all(measures.values())
    charts = [
        overlay(f"Held-out {measured}, by training step", scores, is_share),
        overlay("Reward in training, by step", rewards),
        overlay("Turns that a success takes, by step", turns),
    ]
    return [chart for chart in charts if chart is not None]


def overlay(title: str, lines: Mapping[str, Points], is_share: bool = False) -> Chart | None:
    """Return a chart with a line for each run, shares as percentages; None without a point."""
    if not any(lines.values()):
        return None
    lasts = []
    for name, points in lines.items():
        if not points:
            continue
        value = points[-1][1].mean
        lasts.append(f"{name} {value:.1%}" if is_share else f"{name} {value:.3g}")

    def draw(figure: Figure, theme: Theme) -> None:
        banded = any(one.low < one.high for points in lines.values() for _, one in points)
        headline(figure, theme, _SIZE, title, "95% interval" if banded else "")
        axes = axes_in(figure, theme, _SIZE, _MARGINS)
        colours = (theme.accent, theme.second, _GREEN, _PURPLE, theme.muted)
        for place, (name, points) in enumerate(lines.items()):
            if not points:
                continue  # and its colour and marker stay its own in the other charts
            colour = colours[place % len(colours)]
            steps = [step for step, _ in points]
            means = shade_intervals(axes, steps, [one for _, one in points], colour)
            axes.plot(
                steps,
                means,
                color=colour,
                linewidth=1.8,
                linestyle="-" if place < len(colours) else "--",
                marker=_MARKERS[place % len(_MARKERS)],
                markevery=max(1, len(steps) // _MARKERS_MAX),
                markersize=5,
                label=shorten(name),
            )
        axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(nbins=6))
        if is_share:
            axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
        axes.grid(axis="y", color=theme.grid, linewidth=0.9)
        axes.set_xlabel("training step", color=theme.muted, labelpad=6)
        axes.legend(
            loc="upper left", bbox_to_anchor=(1.02, 1.02), frameon=False, labelcolor=theme.ink
        )

    return Chart(draw, _SIZE, f"{title}; at the end: {', '.join(lasts)}")


def _exact(value: float) -> Interval:
    return Interval(value, value, value)
