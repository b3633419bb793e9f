"""The charts of a run's steps: time by phase, reward spread, a metric, groups dropped."""

from collections import Counter
from collections.abc import Sequence
from itertools import chain

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from precis.records.ledger import TURNS, Ledger, StepRecord
from precis.report.charts import MARKERS_MAX, Chart, Theme, add_legend, style_axes, titled_axes
from precis.report.wording import heading

_PHASES_MAX = 5
"""The most phases with a colour; the shortest of more are drawn as `other`."""


def phases(ledger: Ledger) -> Chart:
    """Draw the wall time of each step by phase; a validation counts to the step that made its
    adapter. A step without a record, as in a rebuilt ledger, is left empty."""
    steps = {one.step: dict(one.seconds) for one in ledger.steps}
    for one in ledger.validations:
        if one.step - 1 in steps:
            steps[one.step - 1]["validate"] = one.seconds
    total: Counter[str] = Counter()
    for spent in steps.values():
        total.update(spent)
    kept = total
    if len(total) > _PHASES_MAX:
        kept = Counter(dict(total.most_common(_PHASES_MAX - 1)))
    first = min(steps)
    count = max(steps) + 1 - first
    named: dict[str, list[float]] = {}
    for step, spent in steps.items():
        for name, seconds in spent.items():
            shown = name if name in kept else "other"
            named.setdefault(shown, [0.0] * count)[step - first] += seconds
    means = {}
    described = []
    for name, spans in named.items():
        means[name] = sum(spans) / len(steps)
        described.append(f"{name} {means[name]:.2g}")

    def draw(figure: Figure, theme: Theme) -> None:
        axes = titled_axes(figure, theme, "Where the time goes", "Seconds a step by phase")
        edges = first - 0.5 + np.arange(count + 1)
        bottoms = np.zeros(count)
        for (name, spans), colour in zip(named.items(), theme.colours, strict=False):
            tops = bottoms + spans
            label = f"{name}  {means[name]:.2g} s"
            axes.stairs(tops, edges, baseline=bottoms, fill=True, color=colour, label=label)
            bottoms = tops
        _step_axis(axes, theme)
        if named:
            add_legend(figure, theme)

    return Chart(draw, (8.4, 2.9), f"Seconds a step by phase: {', '.join(described)}")


def trends(steps: Sequence[StepRecord]) -> Chart:
    """Draw three panels: reward spread within a group, a metric, groups dropped.

    The metric is the turns of a success, or else the first one.
    """
    names = dict.fromkeys(chain.from_iterable(step.metrics for step in steps))
    name = TURNS if TURNS in names else next(iter(names), "")
    spreads = {}
    values = {}
    dropped = {}
    for step in steps:
        spreads[step.step] = step.reward_std
        dropped[step.step] = sum(step.groups_dropped.values())
        if name in step.metrics:
            values[step.step] = step.metrics[name]
    last = f": {steps[-1].reward_std:.2f}" if steps else ""
    if steps and name in steps[-1].metrics:
        last += f", {steps[-1].metrics[name]:.4g} {name}"
    alt = f"Reward spread, {name or 'metrics'} and dropped groups by step{last}"

    def draw(figure: Figure, theme: Theme) -> None:
        figure.set_layout_engine("constrained", w_pad=0.15, h_pad=0.1)
        left, middle, right = figure.subplots(1, 3)
        style = ".-" if len(steps) <= MARKERS_MAX else "-"
        for axes, title, by_step, colour in (
            (left, "Reward spread in a group", spreads, theme.second),
            (middle, heading(name), values, theme.accent),
            (right, "Groups dropped", dropped, theme.muted),
        ):
            style_axes(axes, theme)
            axes.set_title(title, loc="left", color=theme.ink, weight="bold", size=10)
            axes.plot(list(by_step), list(by_step.values()), style, color=colour)
            _step_axis(axes, theme)

    return Chart(draw, (8.4, 2.5), alt)


def _step_axis(axes: Axes, theme: Theme) -> None:
    """Set the axes: steps along the bottom, values from zero, or from the lowest if negative."""
    axes.set_ylim(min(0, axes.dataLim.y0), max(axes.get_ylim()[1], 1e-3))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=4))
    axes.tick_params(labelsize=9)
    axes.set_xlabel("training step", color=theme.muted, size=9, labelpad=3)
