"""The charts of a run's steps: time by phase, reward spread, a metric, groups dropped."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from precis.records.ledger import TURNS, StepRecord
from precis.report.charts import Chart, Size, Theme, axes_in, headline
from precis.report.labels import Label, label_ends
from precis.report.wording import heading

_PHASES_SIZE: Size = (8.4, 2.9)
_MARGINS = (0.68, 0.55, 2.0, 0.82)
_PHASES_MAX = 5
"""As many phases have a colour; where there are more, the shortest are drawn as `other`."""
_GREEN = "#009e73"  # Okabe and Ito's, like the theme's own
_PURPLE = "#cc79a7"

Seconds = Mapping[str, float]
_TRENDS_SIZE: Size = (8.4, 2.5)
_PANEL = 2.7
_LEFT = 0.68
_BOTTOM = 0.5
_RIGHT = 0.26
_TOP = 0.55

_COLUMNS_MAX = 40
"""More columns than this could not be told apart; neighbouring steps then share one."""


def phases(steps: Sequence[Seconds]) -> Chart:
    """Draw the phases that a faster run would have to shorten, by the wall time of each step."""
    total: Counter[str] = Counter()
    for each in steps:
        total.update(each)
    longest = [name for name, _ in total.most_common()]
    kept = longest if len(longest) <= _PHASES_MAX else longest[: _PHASES_MAX - 1]
    named: list[Seconds] = []
    for each in steps:
        summed: dict[str, float] = defaultdict(float)
        for name, seconds in each.items():
            summed[name if name in kept else "other"] += seconds
        named.append(summed)
    names = list(dict.fromkeys(name for step in named for name in step))
    means = {name: _mean_seconds(named, name) for name in names}
    alt = ", ".join(f"{name} {seconds:.2g}" for name, seconds in means.items())

    def draw(figure: Figure, theme: Theme) -> None:
        groups = columns(len(steps))
        subtitle = "Seconds a step by phase"
        if len(groups) < len(steps):
            subtitle += ", mean of neighbouring steps"
        headline(figure, theme, _PHASES_SIZE, "Where the time goes", subtitle)
        axes = axes_in(figure, theme, _PHASES_SIZE, _MARGINS)
        lefts = [group.start - 0.46 for group in groups]
        widths = [len(group) * 0.92 for group in groups]
        bottoms = [0.0] * len(groups)
        colours = (theme.accent, theme.second, _GREEN, _PURPLE, theme.muted)
        labels = []
        for name, colour in zip(names, colours, strict=False):
            heights = [_mean_seconds(named[group.start : group.stop], name) for group in groups]
            axes.bar(lefts, heights, widths, bottoms, align="edge", color=colour, linewidth=0)
            middle = bottoms[-1] + heights[-1] / 2
            labels.append(Label(f"{name}  {means[name]:.2g} s", middle, colour))
            bottoms = [bottom + height for bottom, height in zip(bottoms, heights, strict=True)]
        step_axes(axes, theme, len(steps))
        label_ends(axes, labels, gap=0.13)

    return Chart(draw, _PHASES_SIZE, f"Seconds a step by phase: {alt}")


def _mean_seconds(steps: Sequence[Seconds], name: str) -> float:
    return fmean(step.get(name, 0.0) for step in steps)


def trends(steps: Sequence[StepRecord]) -> Chart:
    """Three panels: reward spread within a group, a metric, groups dropped.

    The metric is how many turns a success takes, or else the first that there is.
    """
    names = dict.fromkeys(name for step in steps for name in step.metrics)
    name = TURNS if TURNS in names else next(iter(names), "")
    last = f": {steps[-1].reward_std:.2f}" if steps else ""
    if steps and name in steps[-1].metrics:
        last += f", {steps[-1].metrics[name]:.4g} {name}"
    alt = f"Reward spread, {name or 'metrics'} and dropped groups by step{last}"
    spreads = [step.reward_std for step in steps]
    values = [step.metrics.get(name) for step in steps]
    dropped = [sum(step.groups_dropped.values()) for step in steps]

    def draw(figure: Figure, theme: Theme) -> None:
        _panel(figure, theme, 0, "Reward spread in a group", theme.second, spreads)
        if name:
            _panel(figure, theme, 1, heading(name), theme.accent, values)
        _panel(figure, theme, 2, "Groups dropped", theme.muted, dropped)

    return Chart(draw, _TRENDS_SIZE, alt)


def _panel(
    figure: Figure,
    theme: Theme,
    place: int,
    title: str,
    colour: str,
    by_step: Sequence[float | None],
) -> None:
    """Draw a value of each step; None where a step has none."""
    width, height = _TRENDS_SIZE
    start = place * _PANEL
    margins = (start + _LEFT, _BOTTOM, width - start - _PANEL + _RIGHT, _TOP)
    axes = axes_in(figure, theme, _TRENDS_SIZE, margins)
    x = (start + 0.22) / width
    y = 1 - 0.32 / height
    figure.text(x, y, title, color=theme.ink, weight="bold", size=10)
    values = []
    middles = []
    for group in columns(len(by_step)):
        known = [one for one in by_step[group.start : group.stop] if one is not None]
        if known:
            values.append(fmean(known))
            middles.append(group.start + (len(group) - 1) / 2)
    axes.plot(middles, values, color=colour, linewidth=1.8, marker="o" if len(values) == 1 else "")
    if not any(values):
        axes.set_ylim(0, 1)
    step_axes(axes, theme, len(by_step))


def columns(steps: int) -> Sequence[range]:
    """Return the steps of each column, at most forty of them."""
    width = max(1, -(-steps // _COLUMNS_MAX))
    return [range(start, min(start + width, steps)) for start in range(0, steps, width)]


def step_axes(axes: Axes, theme: Theme, steps: int) -> None:
    """Steps along the bottom; upwards from zero."""
    axes.set_xlim(-0.5, max(steps, 2) - 0.5)
    axes.set_ylim(0, max(axes.get_ylim()[1], 1e-3))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=4))
    axes.tick_params(labelsize=9)
    axes.grid(axis="y", color=theme.grid, linewidth=0.9)
    axes.set_xlabel("training step", color=theme.muted, size=9, labelpad=3)
