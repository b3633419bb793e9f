"""What a benchmark says of the nights before it."""

import html

from precis.records.nouns import Nouns
from precis.report.nights import nightly_section, regression_payload, verdict_in_words
from precis.statistics.intervals import Difference, Interval
from precis.statistics.nights import NightlyChange
from precis.statistics.standings import Contender


def change(model: str, mean: float, spread: float, p_value: float) -> NightlyChange:
    interval = Interval(mean, mean - spread, mean + spread)
    contender = Contender(model, 9 if model == "trained" else None)
    before = Contender(model, 5) if model == "trained" else contender
    return NightlyChange(contender, before, Difference(interval, p_value, 91))


WORSE = change("trained", -0.1, 0.03, 0.0002)
SAME = change("gpt-4o", 0.01, 0.05, 0.6)


def test_a_regression_is_told_with_its_figures() -> None:
    sentence = verdict_in_words([WORSE, SAME], 3)
    assert sentence.startswith("Worse than on the 3 benchmarks before: trained@9: -10.0 points")
    assert sentence.endswith("on 91 scenarios, corrected p < 0.001.")
    payload = regression_payload([WORSE, SAME], 3, "m", "s3://b/m/benchmarks/0009/report.html")
    (told,) = payload["regressions"]
    assert (told["contender"], told["before"]) == ("trained@9", "trained@5")
    assert (told["points"], told["low"], told["high"], told["documents"]) == (-10, -13, -7, 91)
    assert payload["message"] == sentence


def test_every_comparison_is_shown_worst_first() -> None:
    section = nightly_section([WORSE, SAME], 2, Nouns())
    rows = [line for line in html.unescape(section).splitlines() if line.startswith("| ")]
    assert rows[0].startswith("| Since the 2 benchmarks before | Points | 95 % interval | ")
    assert "trained, step 9 | -10.0 | -13.0 to -7.0 | < 0.001 | 91" in rows[2]
    assert "gpt-4o | +1.0 | -4.0 to +6.0 | 0.600 | 91" in rows[3]
    assert nightly_section([], 0, Nouns()) == ""


def test_a_contender_s_name_is_no_markup() -> None:
    section = nightly_section([change("a|<b>", 0.1, 0.1, 0.5)], 1, Nouns())
    assert section.splitlines()[-1].startswith("| a&#124;&#60;b&#62; |")
    worse = nightly_section([change("a|<b>", -0.1, -0.05, 0.001)], 1, Nouns())
    assert "**Worse than on the benchmark before: a&#124;&#60;b&#62;" in worse
