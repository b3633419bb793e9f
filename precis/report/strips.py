"""What charts over a run's steps share: a thousand steps in a few columns, and their axes."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from precis.report.canvas import Theme

_COLUMNS_MAX = 40
"""More columns than this could not be told apart; neighbouring steps then share one."""


def columns(steps: int) -> Sequence[range]:
    """The steps of each column, at most forty of them."""
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
