"""Where names stand in a chart: at the end of a line, or beside a point, none over another."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes

_CHARACTER = 0.083
"""Width of a character of a name, in inches; a little more than the mean, to be safe."""
_LINE = 0.17
_GAP = 0.10


@dataclass(frozen=True)
class Label:
    """A line's name, at the end of the line; `y` in the data's unit."""

    text: str
    y: float
    colour: str
    bold: bool = False


def label_ends(axes: Axes, labels: Sequence[Label], gap: float) -> None:
    """Name lines at their right end instead of in a legend, at least `gap` apart.

    A label that had to move keeps a thin leader to its line.
    """
    low, high = axes.get_ylim()
    ordered = sorted(labels, key=lambda label: label.y)
    places = spread([label.y for label in ordered], gap, low, high)
    along = axes.get_yaxis_transform()
    for label, place in zip(ordered, places, strict=True):
        axes.plot(
            [1.005, 1.03],
            [label.y, place],
            transform=along,
            color=label.colour,
            linewidth=0.8,
            alpha=0.7,
            clip_on=False,
        )
        axes.text(
            1.037,
            place,
            label.text,
            transform=along,
            color=label.colour,
            va="center",
            size=10,
            weight="bold" if label.bold else "normal",
        )


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move ascending positions as little as needed for `gap` between neighbours.

    Neighbours that would touch form a block around their mean; a block stays between low and
    high where it fits.
    """
    blocks: list[list[float]] = []
    for position in wanted:
        blocks.append([position])
        while len(blocks) > 1 and _touch(blocks[-2], blocks[-1], gap, low, high):
            last = blocks.pop()
            blocks[-1].extend(last)
    positions: list[float] = []
    for block in blocks:
        start = _start_of(block, gap, low, high)
        positions.extend(start + gap * index for index in range(len(block)))
    return positions


def _touch(lower: list[float], upper: list[float], gap: float, low: float, high: float) -> bool:
    end = _start_of(lower, gap, low, high) + gap * len(lower)
    return _start_of(upper, gap, low, high) < end


def _start_of(block: Sequence[float], gap: float, low: float, high: float) -> float:
    length = gap * (len(block) - 1)
    centred = sum(block) / len(block) - length / 2
    return max(low, min(centred, high - length))


@dataclass(frozen=True)
class Box:
    """A rectangle, in inches from the lower left of the axes."""

    left: float
    bottom: float
    right: float
    top: float

    def meets(self, other: "Box") -> bool:
        return (
            self.left < other.right
            and other.left < self.right
            and self.bottom < other.top
            and other.bottom < self.top
        )


@dataclass(frozen=True)
class Place:
    """Where a name stands: its box, and whether it is far enough away to need a leader."""

    box: Box
    far: bool


def place_names(
    names: Sequence[str],
    points: Sequence[tuple[float, float]],
    obstacles: Sequence[Box],
    size: tuple[float, float],
) -> list[Place]:
    """A place for each name beside its point: free of the obstacles and of the other names.

    Args:
        names: in the order in which they choose.
        points: where the named points are, in inches from the lower left.
        obstacles: what no name may cover, such as the points themselves.
        size: width and height of the axes; names stay inside.

    Returns:
        The places in the same order. Where everything near a point is taken its name stands in
        the first free line above or below; where nothing at all is free, beside its point.
    """
    taken = list(obstacles)
    places = []
    for name, point in zip(names, points, strict=True):
        candidates = list(_candidates(point, _CHARACTER * len(name), size))
        place = _first_free(candidates, taken)
        taken.append(place.box)
        places.append(place)
    return places


def _first_free(candidates: Sequence[Place], taken: Sequence[Box]) -> Place:
    for candidate in candidates:
        if not any(candidate.box.meets(box) for box in taken):
            return candidate
    return candidates[0]


def _candidates(
    point: tuple[float, float], width: float, size: tuple[float, float]
) -> Iterator[Place]:
    """Beside the point first, then above and below, then ever further away."""
    x, y = point
    half = _LINE / 2
    yield Place(_inside(x + _GAP, y - half, width, size), far=False)
    yield Place(_inside(x - _GAP - width, y - half, width, size), far=False)
    yield Place(_inside(x - width / 2, y + _GAP, width, size), far=False)
    yield Place(_inside(x - width / 2, y - _GAP - _LINE, width, size), far=False)
    for lines in range(1, int(size[1] / half)):
        for side in (1, -1):
            for left in (x + _GAP, x - _GAP - width):
                yield Place(_inside(left, y - half + side * lines * half, width, size), far=True)


def _inside(left: float, bottom: float, width: float, size: tuple[float, float]) -> Box:
    left = max(0.0, min(left, size[0] - width))
    bottom = max(0.0, min(bottom, size[1] - _LINE))
    return Box(left, bottom, left + width, bottom + _LINE)
