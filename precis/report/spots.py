"""Contenders as named points with their intervals."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

from precis.report.canvas import Size, Theme, shorten
from precis.report.placing import Box, Place, place_names
from precis.statistics.intervals import Interval

_POINT = 0.07
Scale = Callable[[float, float], tuple[float, float]]


@dataclass(frozen=True)
class Spot:
    """A contender: what it takes, in words or dollars, and what it achieves."""

    label: str
    cost: float
    accuracy: Interval
    emphasised: bool = False


def draw_spots(
    axes: Axes,
    theme: Theme,
    size: Size,
    spots: Sequence[Spot],
    across: Sequence[float],
    avoid: Sequence[float] = (),
) -> None:
    """Points with intervals and names; no name covers a point, or stands at an x to avoid.

    Args:
        size: width and height of the axes, in inches; their limits are set.
        spots: in the order in which their names choose a place.
        across: where each stands on the x axis.
        avoid: where a vertical line is, on the x axis.
    """
    for spot, x in zip(spots, across, strict=True):
        colour = theme.accent if spot.emphasised else theme.muted
        ends = [spot.accuracy.low, spot.accuracy.high]
        axes.plot([x, x], ends, color=colour, linewidth=1.2, alpha=0.55, zorder=2)
        marker = "D" if spot.emphasised else "o"
        axes.plot([x], [spot.accuracy.mean], marker, color=colour, markersize=6.5, zorder=3)
    inches = _inches(axes, size)
    points = [inches(x, spot.accuracy.mean) for spot, x in zip(spots, across, strict=True)]
    marks = [
        *(Box(x - 0.02, 0, x + 0.02, size[1]) for x, _ in (inches(each, 0) for each in avoid)),
        *(
            box
            for spot, x in zip(spots, across, strict=True)
            for box in _boxes_of(inches(x, spot.accuracy.mean), spot, inches)
        ),
    ]
    places = place_names([shorten(spot.label) for spot in spots], points, marks, size)
    for spot, (x, y), place in zip(spots, points, places, strict=True):
        _name(axes, theme, spot, (x / size[0], y / size[1]), place, size)


def _boxes_of(point: tuple[float, float], spot: Spot, inches: Scale) -> list[Box]:
    """What a point and the line of its interval cover."""
    x, y = point
    low = inches(0.0, spot.accuracy.low)[1]
    high = inches(0.0, spot.accuracy.high)[1]
    return [Box(x - _POINT, y - _POINT, x + _POINT, y + _POINT), Box(x - 0.01, low, x + 0.01, high)]


def _name(
    axes: Axes, theme: Theme, spot: Spot, point: tuple[float, float], place: Place, size: Size
) -> None:
    """The contender's name where it was placed, in shares of the axes."""
    box = place.box
    left = box.left / size[0]
    right = box.right / size[0]
    middle = (box.bottom + box.top) / 2 / size[1]
    side = "left" if (left + right) / 2 >= point[0] else "right"
    anchor = left if side == "left" else right
    if place.far:
        axes.plot(
            [point[0], anchor],
            [point[1], middle],
            transform=axes.transAxes,
            color=theme.muted,
            linewidth=0.7,
            alpha=0.6,
            zorder=1,
        )
    colour, weight = (theme.accent, "bold") if spot.emphasised else (theme.ink, "normal")
    axes.text(
        anchor,
        middle,
        shorten(spot.label),
        transform=axes.transAxes,
        color=colour,
        size=9.5,
        ha=side,
        va="center",
        weight=weight,
    )


def _inches(axes: Axes, size: Size) -> Scale:
    """From the data's units to inches inside the axes, both linear."""
    (left, right) = axes.get_xlim()
    (bottom, top) = axes.get_ylim()
    width, height = size
    return lambda x, y: (
        (x - left) / (right - left) * width,
        (y - bottom) / (top - bottom) * height,
    )
