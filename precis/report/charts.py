"""The common parts of all charts: colours, type, axes, and how a chart becomes SVG or PNG."""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from precis.statistics.intervals import Interval

Size = tuple[float, float]
Draw = Callable[[Figure, "Theme"], None]


@dataclass(frozen=True)
class Theme:
    """Colours of a chart; blue and orange are Okabe and Ito's, which colour-blind people tell
    apart, and nothing is said by colour alone."""

    surface: str
    ink: str
    muted: str
    grid: str
    bar: str
    accent: str
    second: str


LIGHT = Theme("#ffffff", "#1f2328", "#59636e", "#e4e8ec", "#c3cad1", "#0072b2", "#d55e00")
DARK = Theme("#0d1117", "#e6edf3", "#9198a1", "#262c34", "#434b55", "#56b4e9", "#e69f00")

_DPI = 144
_NAME_MAX = 32
_NAME_END = 11
"""Characters of a name in a chart, and how many of them are its last."""
_STYLE: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": ["Helvetica Neue", "Helvetica", "Arial", "DejaVu Sans"],
    "font.size": 10.5,
    # A contender's name may hold dollar signs; it is never a formula.
    "text.parse_math": False,
    # Text stays text: searchable, small, and in the reader's own font.
    "svg.fonttype": "none",
    # Ids from a fixed salt, so that the same numbers give the same bytes.
    "svg.hashsalt": "precis",
}


@dataclass(frozen=True)
class Chart:
    """A chart that is drawn when it is asked for, in either theme and format."""

    draw: Draw
    size: Size
    alt: str

    def svg(self, theme: Theme = LIGHT) -> str:
        """Return the chart as an SVG document; the same chart gives the same bytes."""
        return self._render(theme, "svg", metadata={"Date": None, "Creator": None}).decode()

    def png(self, theme: Theme = LIGHT, dpi: int = _DPI) -> bytes:
        """Return the chart in 256 colours, which is a third of the bytes."""
        drawn = self._render(theme, "png", dpi=dpi, metadata={"Software": None})
        with Image.open(io.BytesIO(drawn)) as picture:
            few_colours = picture.convert("RGB").quantize()
        target = io.BytesIO()
        few_colours.save(target, "PNG", optimize=True)
        return target.getvalue()

    def _render(self, theme: Theme, kind: str, **options: Any) -> bytes:
        with mpl.rc_context(_STYLE):
            figure = Figure(figsize=self.size, facecolor=theme.surface)
            self.draw(figure, theme)
            target = io.BytesIO()
            figure.savefig(target, format=kind, **options)
        return target.getvalue()


def axes_in(figure: Figure, theme: Theme, size: Size, margins: tuple[float, ...]) -> Axes:
    """Bare axes inside margins (left, bottom, right, top), in inches."""
    left, bottom, right, top = margins
    width, height = size
    axes = figure.add_axes(
        (
            left / width,
            bottom / height,
            (width - left - right) / width,
            (height - bottom - top) / height,
        ),
        facecolor="none",
    )
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, colors=theme.muted, pad=6)
    axes.set_axisbelow(True)
    return axes


def headline(figure: Figure, theme: Theme, size: Size, title: str, subtitle: str) -> None:
    """Title and subtitle, at the top left."""
    x = 0.22 / size[0]
    height = size[1]
    figure.text(x, 1 - 0.34 / height, title, color=theme.ink, size=13.5, weight="bold")
    figure.text(x, 1 - 0.60 / height, subtitle, color=theme.muted, size=9.5)


def shade_intervals(
    axes: Axes, places: Sequence[float], intervals: Sequence[Interval], colour: str
) -> list[float]:
    """A band from the lows to the highs of intervals; their means, to draw a line through."""
    lows = [interval.low for interval in intervals]
    highs = [interval.high for interval in intervals]
    axes.fill_between(places, lows, highs, color=colour, alpha=0.16, linewidth=0)
    return [interval.mean for interval in intervals]


def shorten(name: str) -> str:
    """Return a name that leaves a chart room to be one, whoever chose it: its beginning and its
    end.

    Only names that are alike in both can't be told apart; the page has them in full.
    """
    text = "".join(filter(str.isprintable, " ".join(name.split())))
    if len(text) <= _NAME_MAX:
        return text
    return f"{text[: _NAME_MAX - _NAME_END - 1]}…{text[-_NAME_END:]}"
