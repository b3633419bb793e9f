"""What accuracy costs: in words of a summary, or in dollars for a thousand documents."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from precis.report.charts import Chart, Size, Theme, axes_in, headline, shorten
from precis.report.labels import Box, Place, place_names
from precis.report.wording import dollars
from precis.statistics.intervals import Interval

_SIZE: Size = (8.4, 4.8)
_MARGINS = (0.68, 0.62, 0.35, 0.92)
_WORDS_SPAN = 0.6
"""The axis of words begins at this share of the longest, or before."""
_ROOM = 0.15
"""Free room left and right of the prices, in powers of ten."""
_FREE = 0.5
"""How far left of the cheapest `free` stands, in powers of ten."""
_DECADES_FINE = 2.5
_POINT = 0.07
Scale = Callable[[float, float], tuple[float, float]]


@dataclass(frozen=True)
class Point:
    """A contender: what it takes, in words or dollars, and what it achieves."""

    label: str
    cost: float
    accuracy: Interval
    emphasised: bool = False


def against_words(points: Iterable[Point], limit: int | None = None) -> Chart:
    """Accuracy against the mean length of the summaries; `limit` is the longest allowed."""
    drawn = _best_first(points)
    title = "Accuracy and length"
    draw = partial(_draw_words, drawn, limit, title)
    return Chart(draw, _SIZE, _alt(drawn, title, lambda cost: f"{cost:.0f} words"))


def against_dollars(points: Iterable[Point]) -> Chart:
    """Accuracy against dollars for a thousand documents, by powers of ten; 0 is `free`."""
    drawn = _best_first(points)
    title = "Accuracy and price"
    return Chart(partial(_draw_dollars, drawn, title), _SIZE, _alt(drawn, title, dollars))


def _draw_words(
    points: Sequence[Point], limit: int | None, title: str, figure: Figure, theme: Theme
) -> None:
    headline(figure, theme, _SIZE, title, "Mean words of a summary; 95% interval of the accuracy")
    axes = _axes(figure, theme, points)
    costs = [point.cost for point in points]
    lines = [] if limit is None else [float(limit)]
    high = max([*costs, *lines], default=1.0)
    # A few words more or less are no difference, and should not look like one.
    low = min([*costs, *lines, _WORDS_SPAN * high])
    room = 0.06 * (high - low) or 1.0
    axes.set_xlim(low - room, high + room)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True, steps=[1, 2, 5, 10]))
    axes.set_xlabel("words", color=theme.muted, labelpad=6)
    if limit is not None:
        axes.axvline(limit, color=theme.muted, linewidth=1, linestyle=(0, (1, 2)))
        along = axes.get_xaxis_transform()
        axes.text(
            limit,
            1.01,
            f"limit {limit}",
            transform=along,
            color=theme.muted,
            size=9,
            ha="right",
            va="bottom",
        )
    _draw_points(axes, theme, _inner_size(), points, costs, lines)


def _draw_dollars(points: Sequence[Point], title: str, figure: Figure, theme: Theme) -> None:
    subtitle = "Dollars to summarize a thousand documents; 95% interval of the accuracy"
    headline(figure, theme, _SIZE, title, subtitle)
    axes = _axes(figure, theme, points)
    paid = [math.log10(point.cost) for point in points if point.cost > 0] or [0.0]
    free = min(paid) - _FREE
    at = [math.log10(point.cost) if point.cost else free for point in points]
    prices = _prices(min(paid), max(paid))
    ticks = [math.log10(price) for price in prices]
    labels = list(map(dollars, prices))
    if free in at:
        ticks.insert(0, free)
        labels.insert(0, "free")
    axes.set_xlim(min(at, default=0.0) - _ROOM, max(paid) + _ROOM)
    axes.set_xticks(ticks, labels)
    axes.set_xlabel("dollars for 1,000 documents", color=theme.muted, labelpad=6)
    _draw_points(axes, theme, _inner_size(), points, at)


def _prices(low: float, high: float) -> list[float]:
    """Round prices within powers of ten: 1, 2, 5 where there is room, else 1 alone."""
    steps = (1.0, 2.0, 5.0) if high - low < _DECADES_FINE else (1.0,)
    powers = range(math.floor(low - _ROOM), math.ceil(high + _ROOM))
    prices = []
    for power in powers:
        for step in steps:
            prices.append(step * 10.0**power)
    return [price for price in prices if low - _ROOM <= math.log10(price) <= high + _ROOM]


def _axes(figure: Figure, theme: Theme, points: Sequence[Point]) -> Axes:
    axes = axes_in(figure, theme, _SIZE, _MARGINS)
    low = min((point.accuracy.low for point in points), default=0.0)
    high = max((point.accuracy.high for point in points), default=1.0)
    axes.set_ylim(max(0.0, (low - 0.03) // 0.1 * 0.1), min(1.0, -(-(high + 0.03) // 0.1) * 0.1))
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.grid(axis="both", color=theme.grid, linewidth=0.9)
    return axes


def _inner_size() -> Size:
    left, bottom, right, top = _MARGINS
    return _SIZE[0] - left - right, _SIZE[1] - bottom - top


def _best_first(points: Iterable[Point]) -> list[Point]:
    """What is emphasised chooses its place first, then the better ones."""
    return sorted(points, key=lambda point: (not point.emphasised, -point.accuracy.mean))


def _alt(points: Sequence[Point], title: str, cost: Callable[[float], str]) -> str:
    parts = [f"{point.label} {point.accuracy.mean:.1%} at {cost(point.cost)}" for point in points]
    return f"{title}: {'; '.join(parts)}"


def _draw_points(
    axes: Axes,
    theme: Theme,
    size: Size,
    points: Sequence[Point],
    across: Sequence[float],
    avoid: Sequence[float] = (),
) -> None:
    """Points with intervals and names; no name covers a point, or stands at an x to avoid.

    Args:
        size: width and height of the axes, in inches; their limits are set.
        points: in the order in which their names choose a place.
        across: where each stands on the x axis.
        avoid: where a vertical line is, on the x axis.
    """
    inches = _inches(axes, size)
    obstacles = []
    for x in avoid:
        middle = inches(x, 0)[0]
        obstacles.append(Box(middle - 0.02, 0, middle + 0.02, size[1]))
    positions = []
    for point, x in zip(points, across, strict=True):
        _draw_point(axes, theme, point, x)
        position = inches(x, point.accuracy.mean)
        positions.append(position)
        obstacles.extend(_boxes_of(point, position, inches))
    names = [shorten(point.label) for point in points]
    places = place_names(names, positions, obstacles, size)
    for point, (x, y), place in zip(points, positions, places, strict=True):
        _draw_name(axes, theme, point, (x / size[0], y / size[1]), place, size)


def _draw_point(axes: Axes, theme: Theme, point: Point, x: float) -> None:
    colour = theme.accent if point.emphasised else theme.muted
    ends = [point.accuracy.low, point.accuracy.high]
    axes.plot([x, x], ends, color=colour, linewidth=1.2, alpha=0.55, zorder=2)
    marker = "D" if point.emphasised else "o"
    axes.plot([x], [point.accuracy.mean], marker, color=colour, markersize=6.5, zorder=3)


def _boxes_of(point: Point, position: tuple[float, float], inches: Scale) -> list[Box]:
    """What a point and the line of its interval cover."""
    x, y = position
    low = inches(0.0, point.accuracy.low)[1]
    high = inches(0.0, point.accuracy.high)[1]
    mark = Box(x - _POINT, y - _POINT, x + _POINT, y + _POINT)
    line = Box(x - 0.01, low, x + 0.01, high)
    return [mark, line]


def _draw_name(
    axes: Axes, theme: Theme, point: Point, position: tuple[float, float], place: Place, size: Size
) -> None:
    """The contender's name where it was placed; positions are shares of the axes."""
    box = place.box
    left = box.left / size[0]
    right = box.right / size[0]
    middle = (box.bottom + box.top) / 2 / size[1]
    side = "left" if (left + right) / 2 >= position[0] else "right"
    anchor = left if side == "left" else right
    if place.far:
        axes.plot(
            [position[0], anchor],
            [position[1], middle],
            transform=axes.transAxes,
            color=theme.muted,
            linewidth=0.7,
            alpha=0.6,
            zorder=1,
        )
    axes.text(
        anchor,
        middle,
        shorten(point.label),
        transform=axes.transAxes,
        color=theme.accent if point.emphasised else theme.ink,
        size=9.5,
        ha=side,
        va="center",
        weight="bold" if point.emphasised else "normal",
    )


def _inches(axes: Axes, size: Size) -> Scale:
    """From the data's units to inches inside the axes, both linear."""
    left, right = axes.get_xlim()
    bottom, top = axes.get_ylim()
    width, height = size

    def scale(x: float, y: float) -> tuple[float, float]:
        return (x - left) / (right - left) * width, (y - bottom) / (top - bottom) * height

    return scale
