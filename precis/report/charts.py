"""The common parts of all charts: colours, type, axes, and output as SVG or PNG."""

import base64
import io
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter
from PIL import Image

from precis.markdown import escape
from precis.statistics.intervals import Interval


@dataclass(frozen=True)
class Theme:
    """The colours of a chart; blue and orange are Okabe and Ito's, for colour-blind readers, and no
    information is in colour alone."""

    surface: str
    ink: str
    muted: str
    grid: str
    bar: str
    accent: str
    second: str

    @property
    def colours(self) -> tuple[str, ...]:
        """The colours of lines and areas; the last is grey."""
        return (self.accent, self.second, "#009e73", "#cc79a7", self.muted)


LIGHT = Theme("#ffffff", "#1f2328", "#59636e", "#e4e8ec", "#c3cad1", "#0072b2", "#d55e00")
DARK = Theme("#0d1117", "#e6edf3", "#9198a1", "#262c34", "#434b55", "#56b4e9", "#e69f00")

_NAME_MAX = 32
_NAME_END = 11
"""The most characters of a name in a chart, and how many of them are from its end."""
MARKERS_MAX = 40
"""More markers would merge into a thick line."""
_STYLE: Any = {
    "font.family": ["sans-serif", "Noto Sans CJK JP"],
    "font.sans-serif": ["Helvetica Neue", "Helvetica", "Arial", "DejaVu Sans"],
    "font.size": 10.5,
    # A contender's name may have dollar signs, but is never a formula.
    "text.parse_math": False,
    # Text stays text: searchable, small, and in the reader's own font.
    "svg.fonttype": "none",
    # Ids from a fixed salt, so that the same numbers give the same bytes.
    "svg.hashsalt": "precis",
}


@dataclass(frozen=True)
class Chart:
    """A chart that is drawn on demand, in either theme and format."""

    draw: Callable[[Figure, Theme], None]
    size: tuple[float, float]
    alt: str

    def svg(self, theme: Theme = LIGHT) -> str:
        """Return the chart as an SVG document; the same chart gives the same bytes."""
        return self._render(theme, "svg", metadata={"Date": None, "Creator": None}).decode()

    def png(self, theme: Theme = LIGHT, dpi: int = 144) -> bytes:
        """Return the chart in 256 colours, with a third of the bytes."""
        drawn = self._render(theme, "png", dpi=dpi, metadata={"Software": None})
        with Image.open(io.BytesIO(drawn)) as picture:
            few_colours = picture.convert("RGB").quantize()
        target = io.BytesIO()
        few_colours.save(target, "PNG", optimize=True)
        return target.getvalue()

    def markdown(self) -> str:
        """Return the chart as an image of PNG data in the text."""
        data = base64.b64encode(self.png(dpi=100)).decode()
        return f"![{escape(self.alt)}](data:image/png;base64,{data})"

    def _render(self, theme: Theme, kind: str, **options: Any) -> bytes:
        with mpl.rc_context(_STYLE):
            figure = Figure(figsize=self.size, facecolor=theme.surface)
            self.draw(figure, theme)
            target = io.BytesIO()
            figure.savefig(target, format=kind, **options)
        return target.getvalue()


def titled_axes(figure: Figure, theme: Theme, title: str, subtitle: str = "") -> Axes:
    """Return the axes of a chart below its title, with an automatic layout."""
    figure.set_layout_engine("constrained", w_pad=0.15, h_pad=0.1)
    figure.suptitle(title, x=0.02, ha="left", color=theme.ink, size=13.5, weight="bold")
    axes = figure.subplots()
    axes.set_title(subtitle, loc="left", color=theme.muted, size=9.5)
    style_axes(axes, theme)
    return axes


def style_axes(axes: Axes, theme: Theme) -> None:
    """Draw a grid of values, without a frame."""
    axes.set_facecolor("none")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, colors=theme.muted, pad=6)
    axes.set_axisbelow(True)
    axes.grid(axis="y", color=theme.grid, linewidth=0.9)


def add_legend(figure: Figure, theme: Theme) -> None:
    figure.legend(loc="outside right center", frameon=False, labelcolor=theme.ink, fontsize=10)


@dataclass(frozen=True)
class Line:
    """A line of a chart, with a band if its values have intervals.

    Attributes:
        points: values with intervals, by position; an exact value has itself as both ends.
        colour: its index among the theme's.
    """

    name: str
    points: Mapping[int, Interval]
    colour: int
    style: str = "-"
    marker: str = ""
    width: float = 1.2


def line_chart(
    title: str,
    subtitle: str,
    lines: Iterable[Line],
    alt: str,
    *,
    is_share: bool,
    ticks: Mapping[int, str] | None = None,
) -> Chart:
    """Draw lines by training step, or by the positions of `ticks`; the legend is ordered by last
    value, highest first, and the subtitle names the intervals, if there are any."""
    drawn = [line for line in lines if line.points]
    drawn.sort(key=lambda line: -list(line.points.values())[-1].mean)
    if any(one.low < one.high for line in drawn for one in line.points.values()):
        subtitle = f"{subtitle}; 95 % interval" if subtitle else "95 % interval"

    def draw(figure: Figure, theme: Theme) -> None:
        axes = titled_axes(figure, theme, title, subtitle)
        for line in drawn:
            places = list(line.points)
            colour = theme.colours[line.colour]
            means = []
            lows = []
            highs = []
            for value in line.points.values():
                means.append(value.mean)
                lows.append(value.low)
                highs.append(value.high)
            if lows != highs:
                axes.fill_between(places, lows, highs, color=colour, alpha=0.16, linewidth=0)
            axes.plot(
                places,
                means,
                color=colour,
                linestyle=line.style,
                linewidth=line.width,
                marker=line.marker,
                markersize=4.5,
                markevery=max(1, len(places) // MARKERS_MAX),
                label=line.name,
            )
        if drawn:
            add_legend(figure, theme)
        if is_share:
            axes.set_ylim(max(0.0, axes.get_ylim()[0]), min(1.0, axes.get_ylim()[1]))
            axes.yaxis.set_major_formatter(PercentFormatter(1))
        if ticks is None:
            axes.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
            axes.set_xlabel("training step", color=theme.muted)
        else:
            axes.set_xticks(list(ticks), list(ticks.values()))

    return Chart(draw, (8.4, 4.6), alt)


def shorten(name: str) -> str:
    """Shorten a name to fit a chart, to its beginning and its end. Matplotlib leaves names that
    begin with an underscore out of legends, so those begin with a space.

    Names alike in both become equal; the page has them in full.
    """
    text = "".join(filter(str.isprintable, " ".join(name.split())))
    if text.startswith("_"):
        text = f" {text}"
    if len(text) <= _NAME_MAX:
        return text
    return f"{text[: _NAME_MAX - _NAME_END - 1]}…{text[-_NAME_END:]}"
