"""Where the time goes: the seconds of a step by phase, stacked."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import accumulate
from statistics import fmean

from matplotlib.figure import Figure

from precis.report.canvas import Chart, Label, Size, Theme, axes_in, headline, label_ends
from precis.report.strips import columns, step_axes

_SIZE: Size = (8.4, 2.9)
_MARGINS = (0.68, 0.55, 2.0, 0.82)
_PHASES_MAX = 5
"""As many phases have a colour; where there are more, the shortest are drawn as `other`."""
_GREEN = "#009e73"  # Okabe and Ito's, like the theme's own
_PURPLE = "#cc79a7"

Seconds = Mapping[str, float]


def phases(steps: Sequence[Seconds]) -> Chart:
    """What a faster run would have to save.

    Args:
        steps: wall time by phase of steps 0, 1, 2, …
    """
    named = _with_few_names(steps)
    names = list(dict.fromkeys(name for each in named for name in each))
    alt = "Seconds a step by phase: " + ", ".join(
        f"{name} {fmean(each.get(name, 0.0) for each in named):.2g}" for name in names
    )
    return Chart(partial(_draw, named, names), _SIZE, alt)


def _with_few_names(steps: Sequence[Seconds]) -> list[Seconds]:
    total: dict[str, float] = defaultdict(float)
    for each in steps:
        for name, seconds in each.items():
            total[name] += seconds
    longest = sorted(total, key=lambda name: -total[name])
    kept = longest if len(longest) <= _PHASES_MAX else longest[: _PHASES_MAX - 1]
    return [_sum_other_phases(each, kept) for each in steps]


def _sum_other_phases(seconds: Seconds, kept: Sequence[str]) -> Seconds:
    summed: dict[str, float] = defaultdict(float)
    for name, value in seconds.items():
        summed[name if name in kept else "other"] += value
    return summed


def _draw(steps: Sequence[Seconds], names: Sequence[str], figure: Figure, theme: Theme) -> None:
    drawn = columns(len(steps))
    averaged = ", mean of neighbouring steps" if len(drawn) < len(steps) else ""
    headline(figure, theme, _SIZE, "Where the time goes", f"Seconds a step by phase{averaged}")
    axes = axes_in(figure, theme, _SIZE, _MARGINS)
    heights = [[fmean(steps[at].get(name, 0.0) for at in each) for each in drawn] for name in names]
    bottoms = list(accumulate(heights, _plus, initial=[0.0] * len(drawn)))
    lefts = [each.start - 0.46 for each in drawn]
    widths = [len(each) * 0.92 for each in drawn]
    labels = []
    colours = (theme.accent, theme.second, _GREEN, _PURPLE, theme.muted)
    for name, height, bottom, colour in zip(names, heights, bottoms, colours, strict=False):
        axes.bar(lefts, height, widths, bottom, align="edge", color=colour, linewidth=0)
        mean = fmean(each.get(name, 0.0) for each in steps)
        labels.append(Label(f"{name}  {mean:.2g} s", bottom[-1] + height[-1] / 2, colour))
    step_axes(axes, theme, len(steps))
    low, high = axes.get_ylim()
    label_ends(axes, labels, gap=(high - low) * 0.13)


def _plus(first: Sequence[float], second: Sequence[float]) -> list[float]:
    return [one + other for one, other in zip(first, second, strict=True)]
