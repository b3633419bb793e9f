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


def label_ends(axes: Axes, labels: Sequence[Label], gap: float = 0.062) -> None:
    """Name lines at their right end instead of in a legend, at least `gap` of the axis apart, or
    as far as there is room.

    A label that had to move keeps a thin leader to its line.
    """
    low, high = axes.get_ylim()
    ordered = sorted(labels, key=lambda label: label.y)
    least = (high - low) * min(gap, 1 / max(1, len(labels)))
    places = spread([label.y for label in ordered], least, low, high)
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

    def start_of(block: Sequence[float]) -> float:
        length = gap * (len(block) - 1)
        return max(low, min(sum(block) / len(block) - length / 2, high - length))

    blocks: list[list[float]] = []
    for position in wanted:
        blocks.append([position])
        while len(blocks) > 1:
            end = start_of(blocks[-2]) + gap * len(blocks[-2])
            if start_of(blocks[-1]) >= end:
                break
            last = blocks.pop()
            blocks[-1].extend(last)
    positions: list[float] = []
    for block in blocks:
        start = start_of(block)
        positions.extend(start + gap * index for index in range(len(block)))
    return positions
