"""What accuracy costs: in words of a summary, or in dollars for a thousand documents."""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from precis.report.canvas import Chart, Size, Theme, axes_in, headline
from precis.report.spots import Spot, draw_spots
from precis.report.wording import dollars

_SIZE: Size = (8.4, 4.8)
_MARGINS = (0.68, 0.62, 0.35, 0.92)
_WORDS_SPAN = 0.6
"""The axis of words begins at this share of the longest, or before."""
_ROOM = 0.15
"""Free room left and right of the prices, in powers of ten."""
_FREE = 0.5
"""How far left of the cheapest `free` stands, in powers of ten."""
_DECADES_FINE = 2.5


def against_words(spots: Iterable[Spot], limit: int | None = None) -> Chart:
    """Accuracy against the mean length of the summaries; `limit` is the longest allowed."""
    drawn = _best_first(spots)
    title = "Accuracy and length"
    draw = partial(_draw_words, drawn, limit, title)
    return Chart(draw, _SIZE, _alt(drawn, title, lambda cost: f"{cost:.0f} words"))


def against_dollars(spots: Iterable[Spot]) -> Chart:
    """Accuracy against dollars for a thousand documents, by powers of ten; 0 is `free`."""
    drawn = _best_first(spots)
    title = "Accuracy and price"
    return Chart(partial(_draw_dollars, drawn, title), _SIZE, _alt(drawn, title, dollars))


def _draw_words(
    spots: Sequence[Spot], limit: int | None, title: str, figure: Figure, theme: Theme
) -> None:
    headline(figure, theme, _SIZE, title, "Mean words of a summary; 95% interval of the accuracy")
    axes = _axes(figure, theme, spots)
    costs = [spot.cost for spot in spots] + ([float(limit)] if limit else [])
    high = max(costs, default=1.0)
    # A few words more or less are no difference, and should not look like one.
    low = min([*costs, _WORDS_SPAN * high])
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
    draw_spots(
        axes, theme, _inner_size(), spots, [spot.cost for spot in spots], [limit] if limit else []
    )


def _draw_dollars(spots: Sequence[Spot], title: str, figure: Figure, theme: Theme) -> None:
    subtitle = "Dollars to summarize a thousand documents; 95% interval of the accuracy"
    headline(figure, theme, _SIZE, title, subtitle)
    axes = _axes(figure, theme, spots)
    paid = [math.log10(spot.cost) for spot in spots if spot.cost > 0] or [0.0]
    free = min(paid) - _FREE
    at = [math.log10(spot.cost) if spot.cost else free for spot in spots]
    prices = _prices(min(paid), max(paid))
    ticks = [(math.log10(price), dollars(price)) for price in prices]
    if free in at:
        ticks.insert(0, (free, "free"))
    axes.set_xlim(min(at, default=0.0) - _ROOM, max(paid) + _ROOM)
    axes.set_xticks([tick for tick, _ in ticks], [label for _, label in ticks])
    axes.set_xlabel("dollars for 1,000 documents", color=theme.muted, labelpad=6)
    draw_spots(axes, theme, _inner_size(), spots, at)


def _prices(low: float, high: float) -> list[float]:
    """Round prices within powers of ten: 1, 2, 5 where there is room, else 1 alone."""
    steps = (1.0, 2.0, 5.0) if high - low < _DECADES_FINE else (1.0,)
    powers = range(math.floor(low - _ROOM), math.ceil(high + _ROOM))
    prices = [step * 10.0**power for power in powers for step in steps]
    return [price for price in prices if low - _ROOM <= math.log10(price) <= high + _ROOM]


def _axes(figure: Figure, theme: Theme, spots: Sequence[Spot]) -> Axes:
    axes = axes_in(figure, theme, _SIZE, _MARGINS)
    low = min((spot.accuracy.low for spot in spots), default=0.0)
    high = max((spot.accuracy.high for spot in spots), default=1.0)
    axes.set_ylim(max(0.0, (low - 0.03) // 0.1 * 0.1), min(1.0, -(-(high + 0.03) // 0.1) * 0.1))
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.grid(axis="both", color=theme.grid, linewidth=0.9)
    return axes


def _inner_size() -> Size:
    left, bottom, right, top = _MARGINS
    return _SIZE[0] - left - right, _SIZE[1] - bottom - top


def _best_first(spots: Iterable[Spot]) -> list[Spot]:
    """What is emphasised chooses its place first, then the better ones."""
    return sorted(spots, key=lambda spot: (not spot.emphasised, -spot.accuracy.mean))


def _alt(spots: Sequence[Spot], title: str, cost: Callable[[float], str]) -> str:
    said = (f"{spot.label} {spot.accuracy.mean:.1%} at {cost(spot.cost)}" for spot in spots)
    return f"{title}: {'; '.join(said)}"
