"""The benchmark's other pictures: by topic, and over nights."""

from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree

import polars as pl
import pytest

from precis.report.benchmark_charts import Bar, by_topic, comparison
from precis.report.benchmark_view import accuracy_by_topic
from precis.report.charts import DARK, LIGHT, Chart, Theme
from precis.report.curve import StepPoint, learning_curve
from precis.report.nights import NightlyAccuracy, nights_of, over_nights
from precis.report.wording import dollars
from precis.statistics.intervals import Interval
from precis.statistics.standings import Contender
from tests.support.reports import texts
from tests.support.results import rows

ABOUT_HALF = Interval(0.5, 0.4, 0.6)
TOPICS = accuracy_by_topic(
    rows("a", {"d1": [True] * 5, "d2": [True, False] * 2 + [True]}, topic="News"), [Contender("a")]
)
FIRST = datetime(2026, 11, 1, 3, tzinfo=UTC)
NIGHTS = [
    NightlyAccuracy(
        datetime(2026, 11, 1, 3, tzinfo=UTC) + timedelta(days=day),
        model,
        ABOUT_HALF,
        model == "trained",
    )
    for day in range(30)
    for model in ("trained", "gpt-4o")
]
CHARTS = {
    "curve": learning_curve(
        [StepPoint(0, 0.41, ABOUT_HALF), StepPoint(1, 0.52)], {"lead-350": 0.4}
    ),
    "comparison": comparison([Bar("lead-350", ABOUT_HALF)]),
    "topics": by_topic(TOPICS, [Contender("a"), Contender("b")]),
    "nights": over_nights(NIGHTS, worse=["gpt-4o"]),
}


@pytest.mark.parametrize("chart", CHARTS.values(), ids=CHARTS)
@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_a_picture_is_the_same_bytes_every_time_and_needs_nothing_else(
    chart: Chart, theme: Theme
) -> None:
    svg = chart.svg(theme)
    assert svg == chart.svg(theme)
    assert [one.surface in svg for one in (LIGHT, DARK)] == [theme is LIGHT, theme is DARK]
    assert not {one for one in ("<image", "@import", "dc:date") if one in svg}
    assert len(svg) < 40_000
    assert ElementTree.fromstring(svg).tag.endswith("svg")


@pytest.mark.parametrize(
    ("cost", "shown"),
    [
        (0, "free"),
        (0.0123, "$0.012"),
        (0.5, "$0.50"),
        (2, "$2"),
        (6.2, "$6.20"),
        (1234.5, "$1,234"),
    ],
)
def test_dollars_are_shown_to_two_digits_that_matter(cost: float, shown: str) -> None:
    assert dollars(cost) == shown


def test_a_topic_has_a_row_with_the_accuracy_of_its_documents() -> None:
    assert {topic: found[Contender("a")].mean for topic, found in TOPICS.items()} == {"News": 0.75}
    assert {"News", "a", "b"} <= set(texts(CHARTS["topics"].svg()))
    assert CHARTS["topics"].alt.endswith("News 75%")


def test_a_contender_that_became_worse_is_marked_by_more_than_colour() -> None:
    shown = texts(CHARTS["nights"].svg())
    assert "▼ gpt-4o  50%" in shown
    assert "trained  50%" in shown
    assert "1 Nov" in shown


def test_a_night_shows_the_newest_checkpoint_and_no_incomplete_contender() -> None:
    night = [
        rows("trained", {"d1": [False] * 5}, step=0),
        rows("trained", {"d1": [True] * 5}, step=30),
        rows("gone", {"d1": [None] * 5}),
    ]
    frame = pl.concat(night).with_columns(pl.lit(FIRST).alias("night"))
    (only,) = nights_of([frame])
    assert (only.night, only.model, only.accuracy.mean, only.trained) == (
        FIRST,
        "trained",
        1.0,
        True,
    )
