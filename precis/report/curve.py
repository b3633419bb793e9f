"""The charts of a run, step by step: the learning curve, the time by phase, and further figures."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, cycle
from statistics import fmean

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from precis.records.ledger import TURNS, Ledger, StepRecord
from precis.report.charts import (
    MARKERS_MAX,
    Chart,
    Line,
    Theme,
    add_legend,
    line_chart,
    shorten,
    style_axes,
    titled_axes,
)
from precis.report.wording import heading
from precis.statistics.intervals import Interval

_ACCENT = 0
_SECOND = 1
_GREY = 4
"""Indices of a theme's colours."""


@dataclass(frozen=True)
class Curve:
    """A policy's values, by the step of the checkpoint that was sampled from and validated; 0 is
    the untrained start.

    Attributes:
        rewards: mean reward of the rollouts.
        held_out: the measure on the held-out documents.
        second: the same by a second judge.
    """

    rewards: Mapping[int, float] = field(default_factory=dict)
    held_out: Mapping[int, Interval] = field(default_factory=dict)
    second: Mapping[int, Interval] = field(default_factory=dict)


def curve_of(ledger: Ledger) -> Curve:
    rewards = {one.step: one.reward for one in ledger.steps}
    held_out = {}
    second = {}
    for one in ledger.validations:
        value = one.score.value
        low = value if one.score.low is None else one.score.low
        high = value if one.score.high is None else one.score.high
        held_out[one.step] = Interval(value, low, high)
        if one.second:
            second[one.step] = exact(one.second.value)
    return Curve(rewards, held_out, second)


def exact(value: float) -> Interval:
    """Return an interval without a width."""
    return Interval(value, value, value)


def learning_curve(
    curve: Curve,
    baselines: Mapping[str, float] | None = None,
    ceiling: float | None = None,
    *,
    title: str = "Held-out score, by training step",
    subtitle: str = "On held-out scenarios, greedy",
    is_share: bool = True,
) -> Chart:
    """Draw the held-out score by step with its 95 % band, and the training reward faintly behind
    it, unless it exceeds the scale; other contenders and the ceiling are level lines."""

    def written(value: float, digits: int = 0) -> str:
        return f"{value:.{digits}%}" if is_share else f"{value:.3g}"

    held = dict(sorted(curve.held_out.items()))
    lines = []
    alt = f"{title}: no step was validated yet"
    if held:
        ends = (min(held), max(held))
        shown = [f"{written(held[step].mean, 1)} at step {step}" for step in ends]
        alt = f"{title}: {', '.join(shown)}"
        trained = f"trained  {written(held[ends[1]].mean)}"
        lines.append(Line(trained, held, _ACCENT, marker="o", width=2.2))
    # A trailing mean over a fiftieth of the run: a thousand noisy steps would hide the rest.
    window = max(1, len(curve.rewards) // 50)
    recent: deque[float] = deque(maxlen=window)
    smooth = {}
    for step, reward in curve.rewards.items():
        recent.append(reward)
        smooth[step] = exact(fmean(recent))
    # Rewards of another scale would be cut off; without a validation the scale is theirs.
    are_shares = all(0 <= one.mean <= 1 for one in smooth.values())
    has_shares = is_share and (are_shares or bool(held))
    if are_shares or not has_shares:
        means = f", means of {window}" if window > 1 else ""
        lines.append(Line(f"training reward{means}", smooth, _SECOND))
    if curve.second:
        opinion = written(curve.second[max(curve.second)].mean)
        lines.append(Line(f"second judge  {opinion}", curve.second, _ACCENT, "--"))
    steps = (0, max([1, *curve.rewards, *held]))
    for name, level in (baselines or {}).items():
        label = f"{shorten(name)}  {written(level)}"
        lines.append(Line(label, dict.fromkeys(steps, exact(level)), _GREY, "--"))
    if ceiling is not None:
        label = f"the ceiling  {written(ceiling)}"
        lines.append(Line(label, dict.fromkeys(steps, exact(ceiling)), _GREY, ":"))
    return line_chart(title, subtitle, lines, alt, is_share=has_shares)


def phases(ledger: Ledger) -> Chart:
    """Draw the wall time of each step by phase; a validation counts to the step that made its
    adapter. A step without a record, as in a rebuilt ledger, is left empty."""
    steps = {one.step: dict(one.seconds) for one in ledger.steps}
    for one in ledger.validations:
        if one.step - 1 in steps:
            steps[one.step - 1]["validate"] = one.seconds
    first = min(steps)
    count = max(steps) + 1 - first
    named: dict[str, list[float]] = {}
    for step, spent in steps.items():
        for name, seconds in spent.items():
            named.setdefault(name, [0.0] * count)[step - first] = seconds
    means = {}
    described = []
    for name, spans in named.items():
        means[name] = sum(spans) / len(steps)
        described.append(f"{name} {means[name]:.2g}")

    def draw(figure: Figure, theme: Theme) -> None:
        axes = titled_axes(figure, theme, "Where the time goes", "Seconds a step by phase")
        edges = first - 0.5 + np.arange(count + 1)
        bottoms = np.zeros(count)
        for (name, spans), colour in zip(named.items(), cycle(theme.colours), strict=False):
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
