"""The names of lines, at the lines' ends and none over another."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes


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
