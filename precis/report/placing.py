"""Where the names of points go, so that none covers another."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_CHARACTER = 0.083
"""Width of a character of a name, in inches; a little more than the mean, to be safe."""
_LINE = 0.17
_GAP = 0.10


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
        free = (each for each in candidates if not any(each.box.meets(box) for box in taken))
        place = next(free, candidates[0])
        taken.append(place.box)
        places.append(place)
    return places


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
