"""The pictures of reports: what they show, and that they need nothing else."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib import font_manager
from matplotlib.figure import Figure
from matplotlib.text import Annotation

from precis.records.ledger import Metric
from precis.report.benchmark_charts import by_topic, comparison
from precis.report.benchmark_view import Benchmark
from precis.report.charts import DARK, LIGHT, shorten
from precis.report.curve import Curve, exact, learning_curve
from precis.report.nights import NightlyAccuracy, nights_of, over_nights
from precis.report.wording import Words, cost, number
from precis.statistics.intervals import Interval
from precis.statistics.standings import Contender
from precis.text import write_dollars
from tests.support.reports import texts
from tests.support.results import rows

CURVE = Curve(
    {0: 0.41, 1: 0.52},
    {0: Interval(0.42, 0.36, 0.48), 2: Interval(0.71, 0.66, 0.77)},
    {0: exact(0.4), 2: exact(0.6)},
)
TRAINED = Contender("trained", 30)
MEASURED = {Contender("lead-350"): Interval(0.47, 0.41, 0.53), TRAINED: Interval(0.74, 0.69, 0.79)}
TOPICS = Benchmark(
    rows("a", {"d1": [True] * 5, "d2": [True, False] * 2 + [True]}, topic="News")
).topics
FIRST = datetime(2026, 11, 1, 3, tzinfo=UTC)
NIGHTS = [
    NightlyAccuracy(FIRST + timedelta(days=day), model, Interval(0.5, 0.4, 0.6), model == "trained")
    for day in range(30)
    for model in ("trained", "gpt-4o")
]
CHARTS = {
    "curve": learning_curve(CURVE, {"lead-350": 0.47, "random-350": 0.46}, ceiling=0.93),
    "comparison": comparison(MEASURED, TRAINED, 0.93, Words()),
    "topics": by_topic(TOPICS, [Contender("a"), Contender("b")], Words()),
    "nights": over_nights(NIGHTS, ["gpt-4o"], Words()),
}


@pytest.fixture(scope="module")
def drawn() -> dict[str, str]:
    """Each of the charts as SVG."""
    return {name: chart.svg() for name, chart in CHARTS.items()}


def test_a_picture_is_the_same_bytes_and_needs_nothing_else(drawn: dict[str, str]) -> None:
    for name, svg in drawn.items():
        assert svg == CHARTS[name].svg()
        dark = CHARTS[name].svg(DARK)
        assert [one.surface in svg for one in (LIGHT, DARK)] == [True, False]
        assert [one.surface in dark for one in (LIGHT, DARK)] == [False, True]
        assert not {one for one in ("<image", "@import", "dc:date") if one in svg}
        assert len(svg) < 40_000


def test_lines_and_bars_are_named_with_their_values(drawn: dict[str, str]) -> None:
    shown = texts(drawn["curve"])
    for label in ("trained  71%", "training reward", "lead-350  47%", "the ceiling  93%"):
        assert label in shown
    assert "second judge  60%" in shown
    assert "On held-out scenarios, greedy; 95 % interval" in texts(drawn["nights"])
    assert "42.0% at step 0, 71.0% at step 2" in CHARTS["curve"].alt
    shown = texts(drawn["comparison"])
    assert {"74.0% (69.0% to 79.0%)", "47.0% (41.0% to 53.0%)", "ceiling 93%"} <= set(shown)
    assert shown.index("trained, step 30") < shown.index("lead-350"), "the best is first"
    assert "trained, step 30 74.0% (69.0% to 79.0%)" in CHARTS["comparison"].alt
    assert "On held-out scenarios" in texts(drawn["topics"])
    assert "LineCollection" not in drawn["topics"], "a topic of few documents has no interval"
    six = rows("a", {f"d{number}": [True, number > 2, False] for number in range(6)}, topic="News")
    svg = by_topic(Benchmark(six).topics, [Contender("a")], Words()).svg()
    shown = texts(svg)
    assert "On held-out scenarios; 95 % interval of the first on 5 or more" in shown
    assert "LineCollection" in svg


def test_a_run_without_steps_is_drawn_and_rewards_of_another_scale_are_not_cut_off() -> None:
    assert "training step" in texts(learning_curve(Curve()).svg())
    assert "training reward" in texts(learning_curve(Curve({0: 1.0})).svg())
    long = Curve(dict.fromkeys(range(150), 0.5))
    assert "training reward, means of 3" in texts(learning_curve(long).svg())
    assert texts(comparison({}, None, None, Words()).svg())
    rewards = {0: 5.0, 1: 7.0}
    figure = Figure()
    learning_curve(Curve(rewards)).draw(figure, LIGHT)
    low, high = figure.axes[0].get_ylim()
    assert low < 5 and high > 7
    shares = texts(learning_curve(Curve(rewards, {2: Interval(0.5, 0.4, 0.6)})).svg())
    assert "training reward" not in shares and "60.0%" in shares


def test_a_name_is_never_markup_nor_a_formula() -> None:
    name = "$x^2$ <b>&"
    measured = {Contender(f"{name}\0\ud83d"): Interval(0.5, 0.4, 0.6)}
    chart = comparison(measured, None, None, Words())
    assert name in texts(chart.svg()) and chart.png()
    hidden = learning_curve(Curve({}, {0: exact(0.5)}), {"_local": 0.4})
    assert "_local  40%" in texts(hidden.svg()), "as labels of its own, matplotlib shows none"


def test_a_png_has_chinese_names_where_a_font_with_them_is_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fonts: Any = font_manager.fontManager
    [every] = [font for font in fonts.ttflist if font.name.startswith("Last Resort")]
    installed = replace(every, name="Noto Sans CJK JP")
    monkeypatch.setattr(fonts, "ttflist", [*fonts.ttflist, installed])
    fonts._findfont_cached.cache_clear()
    measured = {Contender("模型"): Interval(0.5, 0.4, 0.6)}
    assert comparison(measured, None, None, Words()).png()


def test_a_curve_of_rewards_has_no_percentages() -> None:
    curve = Curve({0: -3.0}, {0: Interval(-2.0, -4.0, 0.0), 5: Interval(12.5, 10.0, 14.0)})
    chart = learning_curve(curve, title="Reward", subtitle="On held-out boards", is_share=False)
    assert chart.alt == "Reward: -2 at step 0, 12.5 at step 5"
    shown = texts(chart.svg())
    assert "trained  12.5" in shown
    assert "On held-out boards; 95 % interval" in shown
    assert not any(one.endswith("%") for one in shown)
    lost = comparison({Contender("a"): Interval(-5.0, -6.0, -4.0)}, None, None, Words())
    lost.draw(figure := Figure(), LIGHT)
    (label,) = figure.axes[0].texts
    assert isinstance(label, Annotation)
    assert label.xy == (0, 0), "left of its bar it would be on the name"
    # Rewards of few boards have no interval.
    few = {Contender("a"): exact(2.5)}
    rewards = Words(is_share=False)
    for drawn in (learning_curve(Curve({}, {0: exact(2.5)})), comparison(few, None, None, rewards)):
        assert not any("95 %" in one for one in texts(drawn.svg()))


@pytest.mark.parametrize(
    ("usd", "shown"),
    [(1e-17, "$0.00"), (0.00034, "$0.00034"), (0.5, "$0.50"), (2, "$2.00"), (1234.5, "$1,234.50")],
)
def test_dollars_are_shown_to_cents_and_to_two_digits_that_matter(usd: float, shown: str) -> None:
    assert write_dollars(usd) == shown
    standing: Any = SimpleNamespace(usd_per_1000=usd, is_bound=True)
    assert cost(standing) == f"at most {shown}"
    standing.usd_per_1000 = 0.0
    assert cost(standing) == "free"


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, ""), (0.5, "0.5"), (-2 / 3, "-0.6667"), (9999.7, "10,000"), (123456.7, "123,457")],
)
def test_numbers_are_shown_to_four_digits_or_to_the_one(value: float | None, shown: str) -> None:
    assert number(value) == shown
    assert value is None or str(Metric(value=value)) == shown


def test_a_night_shows_the_newest_checkpoint_and_no_incomplete_contender() -> None:
    night = [
        rows("trained", {"d1": [False] * 5}, step=0),
        rows("trained", {"d1": [True] * 5}, step=30),
        rows("gone", {"d1": [None] * 5}),
    ]
    frame = pl.concat(night).with_columns(pl.lit(FIRST).alias("night"))
    (only,) = nights_of(frame)
    assert (only.night, only.model, only.trained) == (FIRST, "trained", True)
    assert only.accuracy.mean == 1.0


@given(st.text(max_size=300))
def test_a_shortened_name_is_short_and_keeps_both_ends(name: str) -> None:
    short = shorten(f"begin {name} end")
    assert len(short) <= 32
    assert short.startswith("begin") and short.endswith("end")
