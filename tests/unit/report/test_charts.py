from precis.report.benchmark_charts import Bar, comparison
from precis.report.charts import Chart
from precis.report.curve import CurveWords, StepPoint, learning_curve
from precis.statistics.intervals import Interval
from tests.support.reports import texts

CURVE = [
    StepPoint(0, 0.41, Interval(0.42, 0.36, 0.48)),
    StepPoint(1, 0.52),
    StepPoint(2, None, Interval(0.71, 0.66, 0.77)),
]
BARS = [
    Bar("lead-350", Interval(0.47, 0.41, 0.53)),
    Bar("trained, step 30", Interval(0.74, 0.69, 0.79), emphasised=True),
]


def curve() -> Chart:
    return learning_curve(CURVE, {"lead-350": 0.47, "random-350": 0.46}, ceiling=0.93)


def test_the_legend_names_lines_with_their_last_value() -> None:
    shown = texts(curve().svg())
    for label in ("trained  71%", "training reward", "lead-350  47%", "the ceiling  93%"):
        assert label in shown


def test_bars_show_name_accuracy_and_interval_best_first() -> None:
    shown = texts(comparison(reversed(BARS), ceiling=0.93).svg())
    assert {"74.0% (69.0% to 79.0%)", "47.0% (41.0% to 53.0%)", "ceiling 93%"} <= set(shown)
    assert shown.index("trained, step 30") < shown.index("lead-350")


def test_the_png_has_a_palette_since_lists_of_reports_bring_all_their_pictures() -> None:
    png = curve().png(dpi=100)
    colour_type = png[25]
    assert colour_type == 3
    assert len(png) < 16_000


def test_a_run_without_steps_and_one_without_validation_are_drawn() -> None:
    assert "training step" in texts(learning_curve([]).svg())
    assert "training reward" in texts(learning_curve([StepPoint(0, 1.0)]).svg())
    assert texts(comparison([]).svg())


def test_a_name_is_never_markup_nor_a_formula() -> None:
    name = "$x^2$ <b>&"
    assert name in texts(comparison([Bar(name, Interval(0.5, 0.4, 0.6))]).svg())


def test_a_picture_says_what_it_shows_to_those_who_do_not_see_it() -> None:
    assert "42.0% at step 0, 71.0% at step 2" in curve().alt
    assert "trained, step 30 74.0% (69.0% to 79.0%)" in comparison(BARS).alt


def test_a_curve_of_rewards_has_no_percentages() -> None:
    words = CurveWords("Held-out reward, by training step", "On held-out boards", is_share=False)
    points = [
        StepPoint(0, -3.0, accuracy=Interval(-2.0, -4.0, 0.0)),
        StepPoint(5, accuracy=Interval(12.5, 10.0, 14.0)),
    ]
    chart = learning_curve(points, words=words)
    assert chart.alt == "Held-out reward, by training step: -2 at step 0, 12.5 at step 5"
    shown = texts(chart.svg())
    assert "trained  12.5" in shown
    assert "On held-out boards; 95% interval" in shown
    assert not any(one.endswith("%") for one in shown)
