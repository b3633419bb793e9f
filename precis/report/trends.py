"""How a run's steps went, small: reward spread, words, groups dropped."""

from collections.abc import Callable, Sequence
from functools import partial
from statistics import fmean

from matplotlib.figure import Figure

from precis.records.ledger import StepRecord
from precis.report.canvas import Chart, Size, Theme, axes_in
from precis.report.strips import columns, step_axes

_SIZE: Size = (8.4, 2.5)
_PANEL = 2.7
_LEFT = 0.68
_BOTTOM = 0.5
_RIGHT = 0.26
_TOP = 0.55

Value = Callable[[StepRecord], float]


def trends(steps: Sequence[StepRecord]) -> Chart:
    """Three panels: reward spread within a group, words of a summary, groups dropped."""
    last = f": {steps[-1].reward_std:.2f}, {steps[-1].words:.0f} words" if steps else ""
    alt = f"Reward spread, words and dropped groups by step{last}"
    return Chart(partial(_draw, steps), _SIZE, alt)


def _draw(steps: Sequence[StepRecord], figure: Figure, theme: Theme) -> None:
    _panel(figure, theme, 0, "Reward spread in a group", theme.second, steps, _spread)
    _panel(figure, theme, 1, "Words of a summary", theme.accent, steps, _words)
    _panel(figure, theme, 2, "Groups dropped", theme.muted, steps, _groups_dropped)


def _spread(step: StepRecord) -> float:
    return step.reward_std


def _words(step: StepRecord) -> float:
    return step.words


def _groups_dropped(step: StepRecord) -> float:
    return sum(step.groups_dropped.values())


def _panel(
    figure: Figure,
    theme: Theme,
    place: int,
    title: str,
    colour: str,
    steps: Sequence[StepRecord],
    value: Value,
) -> None:
    width, height = _SIZE
    start = place * _PANEL
    margins = (start + _LEFT, _BOTTOM, width - start - _PANEL + _RIGHT, _TOP)
    axes = axes_in(figure, theme, _SIZE, margins)
    x = (start + 0.22) / width
    y = 1 - 0.32 / height
    figure.text(x, y, title, color=theme.ink, weight="bold", size=10)
    drawn = columns(len(steps))
    values = [fmean(value(steps[step]) for step in each) for each in drawn]
    middles = [each.start + (len(each) - 1) / 2 for each in drawn]
    axes.plot(middles, values, color=colour, linewidth=1.8, marker="o" if len(values) == 1 else "")
    if not any(values):
        axes.set_ylim(0, 1)
    step_axes(axes, theme, len(steps))
