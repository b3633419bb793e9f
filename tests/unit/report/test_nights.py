"""What a benchmark finds and says of the nights before it."""

import html
from datetime import UTC, datetime

import polars as pl
import pytest
from matplotlib.figure import Figure

from precis.records.nouns import Nouns
from precis.records.results import frame_of
from precis.report.benchmark_charts import charts_of
from precis.report.benchmark_view import Benchmark
from precis.report.charts import LIGHT
from precis.report.nights import Comparison, NightlyChange, compare_nights
from precis.report.page import report_html
from precis.report.wording import Words
from precis.statistics.intervals import Difference, Interval
from precis.statistics.standings import Contender
from tests.support import reports
from tests.support.results import rows

DOCUMENTS = Words(Nouns(scenario="document", scenarios="documents"))


def change(model: str, mean: float, spread: float, p_value: float) -> NightlyChange:
    interval = Interval(mean, mean - spread, mean + spread)
    contender = Contender(model, 9 if model == "trained" else None)
    before = Contender(model, 5) if model == "trained" else contender
    return NightlyChange(contender, before, Difference(interval, p_value, 91), DOCUMENTS)


WORSE = change("trained", -0.1, 0.03, 0.0002)
SAME = change("gpt-4o", 0.01, 0.05, 0.6)


def since(nights: int, *changes: NightlyChange) -> Comparison:
    return Comparison(pl.DataFrame({"run": list(range(nights))}), changes)


def test_a_regression_is_told_with_its_figures() -> None:
    found = since(3, WORSE, SAME)
    sentence = found.verdict
    assert sentence.startswith("Worse than on the 3 benchmarks before: trained@9: -10.0 points")
    assert sentence.endswith("on 91 documents, corrected p < 0.001.")


def test_every_comparison_is_shown_and_a_contender_s_name_is_no_markup() -> None:
    section = since(2, WORSE, SAME).section()
    rows = [line for line in html.unescape(section).splitlines() if line.startswith("| ")]
    assert rows[0].startswith("| Since the 2 benchmarks before | Points | 95 % interval | ")
    assert "trained, step 9 | -10.0 | -13.0 to -7.0 | p < 0.001 | 91" in rows[2]
    assert "gpt-4o | +1.0 | -4.0 to +6.0 | p = 0.600 | 91" in rows[3]
    assert Comparison().section() == ""
    section = since(1, change("a|<b>", -0.1, -0.05, 0.001)).section()
    assert section.splitlines()[-1].startswith("| a&#124;&#60;b&#62; |")
    assert "**Worse than on the benchmark before: a&#124;&#60;b&#62;" in section


RIGHT, WRONG = [True] * 5, [False] * 5


def night(model: str, correct: int, documents: int = 20, step: int | None = None) -> pl.DataFrame:
    """A contender with so many answers right on every document."""
    answers = [True] * correct + [False] * (5 - correct)
    return rows(model, {f"d{index}": answers for index in range(documents)}, step)


def compare(tonight: pl.DataFrame, earlier: pl.DataFrame) -> Comparison:
    return compare_nights(tonight, earlier, Words())


def test_a_contender_that_lost_answers_everywhere_is_a_regression() -> None:
    (found,) = compare(night("gpt-4o", 2), night("gpt-4o", 3)).regressions
    assert found.contender == Contender("gpt-4o")
    assert found.difference.accuracy.mean == -0.25
    assert str(found).startswith("gpt-4o: -25.0 points (-37.6 to -16.6) on 20 scenarios, corrected")
    (averaged,) = compare(night("m", 3), pl.concat([night("m", 2), night("m", 4)])).changes
    assert averaged.difference.accuracy.mean == 0
    assert compare(night("m", 2), night("m", 4).clear()) == Comparison()
    same = night("same", 3)
    tonight, before = (pl.concat([night("gpt-4o", count), same]) for count in (2, 3))
    assert compare(tonight, before).regressions == [found], "without a change it is no comparison"


def test_what_one_comparison_would_flag_is_no_alarm_among_four() -> None:
    before = night("m", 5)
    tonight = rows("m", {f"d{i}": WRONG if i < 7 else RIGHT for i in range(20)})
    others = [f"other-{index}" for index in range(3)]
    even = [rows(name, {f"d{i}": RIGHT if i % 2 else WRONG for i in range(20)}) for name in others]
    odd = [rows(name, {f"d{i}": WRONG if i % 2 else RIGHT for i in range(20)}) for name in others]
    assert [found.contender.model for found in compare(tonight, before).regressions] == ["m"]
    worst, *_ = compare(pl.concat([tonight, *even]), pl.concat([before, *odd])).changes
    assert worst.contender == Contender("m")
    assert worst.difference.accuracy.high < 0
    assert not worst.is_regression


def test_no_win_on_one_night_where_wins_are_rare_is_no_regression() -> None:
    """Each of the seven nights before has one win, each on another scenario."""
    lost = {f"d{index}": [False] for index in range(20)}
    before = [rows("m", {**lost, f"d{number}": [True]}) for number in range(7)]
    found = compare(rows("m", lost), pl.concat(before))
    assert found.changes and not found.regressions
    won = {f"d{index}": [True] for index in range(20)}
    always = pl.concat([rows("m", won)] * 7)
    assert compare(rows("m", {**won, **dict(list(lost.items())[:7])}), always).regressions


def test_the_newest_checkpoint_is_compared_with_the_newest_before() -> None:
    others = [night("trained", 1, step=0), night("gpt-4o", 5)]
    before = pl.concat([*others, night("trained", 4, step=30)])
    tonight = pl.concat([*others, night("trained", 2, step=40)])
    (found,) = compare(tonight, before).regressions
    assert (found.contender, found.before) == (Contender("trained", 40), Contender("trained", 30))
    assert "against trained@30" in str(found)


@pytest.mark.usefixtures("undrawn")
def test_a_regression_is_announced_on_the_page() -> None:
    def night(day: int, corrects: list[int | None]) -> pl.DataFrame:
        began = pl.lit(datetime(2026, 11, day, 3, tzinfo=UTC))
        frame = frame_of(reports.rows("gpt-4o", None, corrects))
        return frame.with_columns(night=began, run=pl.lit(str(day)))

    failed = night(17, [4, 4, *[None] * 10])
    before = pl.concat([failed, *[night(day, [4] * 12) for day in (18, 19)]])
    tonight, same = night(20, [2, 1] * 6), night(20, [4] * 12)
    worse = Benchmark(tonight, comparison=compare_nights(tonight, before, Words()))
    charts_of(worse)["nights"].draw(figure := Figure(), LIGHT)
    assert [one.get_text() for one in figure.legends[0].get_texts()] == ["▼ gpt-4o  38%"]
    page = report_html(worse)
    assert "Worse than on the nights before" in page
    assert "the mean of the 3 nights before" in " ".join(page.split())
    well = Benchmark(same, comparison=compare_nights(same, before, Words()))
    assert "Worse than on the nights before" not in report_html(well)
