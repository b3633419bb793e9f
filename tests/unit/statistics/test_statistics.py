import json
from itertools import combinations, permutations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precis.records.nouns import Figure
from precis.statistics.intervals import (
    Interval,
    bca_bounds,
    documents_needed,
    holm,
    paired_difference,
    paired_interval,
    ratio_interval,
    share_interval,
)
from precis.statistics.standings import (
    Contender,
    align,
    difference,
    differences,
    figure_of,
    pass_at,
    sizes_up_to,
    summarise,
)
from tests.support.results import rows


@pytest.mark.parametrize(("documents", "ease"), [(32, (2, 2)), (32, (8, 1)), (91, (1, 6))])
def test_the_interval_holds_in_95_of_100_cases(documents: int, ease: tuple[float, float]) -> None:
    truth = ease[0] / sum(ease)  # the mean of the Beta distribution of the documents' ease
    covered = too_high = 0
    for seed in range(1000):
        generator = np.random.default_rng(seed)
        asked = generator.integers(3, 6, documents)
        correct = generator.binomial(asked, generator.beta(*ease, documents))
        low, high = bca_bounds(correct.astype(float), asked.astype(float), 0.95, seed, 300)
        covered += low <= truth <= high
        too_high += low > truth
    assert 930 <= covered <= 970
    # 25 should be too high; of plain percentiles near the ceiling 56 are.
    assert too_high <= 40


def test_documents_that_differ_alike_leave_room_for_others() -> None:
    # Of 20 documents alike, one in 40 times the others are a sixth or more.
    others = 1 - 0.025 ** (1 / 20)
    found = paired_interval([3] * 20, [3] * 20, [4] * 20)
    assert (found.low, found.high) == pytest.approx((-others, others))
    found = paired_interval([3] * 20, [2] * 20, [4] * 20)
    assert found.low == pytest.approx(0.25 * (1 - 2 * others))
    assert found.high == pytest.approx(0.25 * (1 - others) + others)


@pytest.mark.parametrize("size", [9.0, 1.0, 0.1, 1e-12])
def test_a_gain_on_all_documents_is_beyond_chance_where_its_p_value_says_so(size: float) -> None:
    for documents in (5, 6, 32):
        gains, none = [size] * documents, [0] * documents
        for first, second in ((gains, none), (none, gains)):
            found = paired_difference(first, second, [1] * documents)
            excludes_zero = found.accuracy.low * found.accuracy.high > 0
            assert excludes_zero == (found.p_value < 0.05) == (documents > 5)
            assert not found.is_none


def test_few_documents_say_nothing_of_the_spread_and_none_is_refused() -> None:
    assert ratio_interval([3], [4]) == Interval(0.75, 0.0, 1.0)
    assert paired_difference([3], [1], [4]).accuracy == Interval(0.5, -1.0, 1.0)
    assert ratio_interval([1, 2, 3, 3], [4] * 4) == Interval(9 / 16, 0.0, 1.0)
    assert paired_difference([3, 3], [1, 2], [4, 4]).accuracy == Interval(3 / 8, -1.0, 1.0)
    assert ratio_interval([1, 2, 3, 3, 3], [4] * 5).low > 0
    nothing: list[tuple[list[float], list[float]]] = [([], []), ([1], [1, 2]), ([1, 1], [1, 0])]
    for parts, wholes in nothing:
        with pytest.raises(ValueError, match="one part for each whole"):
            ratio_interval(parts, wholes)


def test_the_permutation_test_agrees_with_counting_by_hand() -> None:
    # Of the 16 ways to swap four documents only two are as extreme as all gains in one direction.
    assert paired_difference([1] * 4, [0] * 4, [4] * 4).p_value == pytest.approx(2 / 16, abs=0.01)
    # Of 32 ways six are as extreme, in rewards of any size: two tie but for rounding.
    for size in (1e-12, 1.0, 1e12):
        rewards = size * np.array([0.1, 0.2, 0.3, 0.7, -0.1])
        p_value = paired_difference(rewards, np.zeros(5), np.ones(5)).p_value
        assert p_value == pytest.approx(6 / 32, abs=0.01)


def test_holm_corrects_as_in_the_textbook() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []


def test_the_documents_needed_do_see_the_difference() -> None:
    generator = np.random.default_rng(2)
    asked = np.full(400, 4.0)
    first, second = generator.binomial(4, 0.53, 400), generator.binomial(4, 0.5, 400)
    needed = documents_needed(first.astype(float), second.astype(float), asked)
    assert needed
    seen = 0
    for seed in range(100):
        first, second = generator.binomial(4, 0.53, needed), generator.binomial(4, 0.5, needed)
        gains = (first - second).astype(float)
        low, high = bca_bounds(gains, np.full(needed, 4.0), 0.95, seed, 200)
        seen += low > 0 or high < 0
    assert 65 <= seen <= 95


def test_accuracy_counts_answerable_questions_of_scored_summaries_only() -> None:
    words = Figure("words", "words")
    frame = rows("a", {"d1": [True, True, True, False, False], "d2": [True, False] * 2 + [True]})
    (standing,) = summarise(frame)
    assert standing.accuracy is not None
    assert standing.accuracy.mean == 5 / 8
    assert figure_of(frame, Figure("honest", "declined", "unanswerable")) == 0.5
    assert standing.documents == 2
    unmeasured = rows("a", {"d3": [True]}).with_columns(score=pl.lit(None, pl.Float64))
    (standing,) = summarise(pl.concat([frame, unmeasured]))
    assert (standing.documents, standing.unscored) == (2, {}), "it is in no accuracy"
    unscored = rows("a", {"d2": [None] * 5}, words=900)
    scored = {f"d{n}": [True] * 5 for n in range(10, 19)}
    frame = pl.concat([rows("a", scored, words=80), unscored])
    (standing,) = summarise(frame)
    assert standing.accuracy is not None
    assert (standing.accuracy.mean, figure_of(frame, words)) == (1.0, 80)
    assert (standing.unscored, standing.complete) == ({"timeout": 1}, True)
    (standing,) = summarise(unscored)
    assert standing.accuracy is None and figure_of(unscored, words) is None
    (standing,) = summarise(rows("a", {f"d{n}": [n < 9] for n in range(10)}))
    assert standing.accuracy == share_interval(9, 10), "what is won or lost has Wilson's interval"


def test_differences_are_paired_over_the_documents_both_were_scored_on() -> None:
    trained, lead, gone = Contender("trained", 5), Contender("lead-350"), Contender("gone")
    of_trained = rows("trained", {f"d{index}": [True] * 5 for index in range(9)}, step=5)
    of_lead = {f"d{index}": [False] * 5 if index < 8 else [None] * 5 for index in range(9)}
    of_gone = rows("gone", {"d0": [None] * 5})
    frame = pl.concat([of_trained, rows("lead-350", of_lead), of_gone])
    ((pair, found),) = differences(frame, [(trained, lead), (trained, gone)]).items()
    assert pair == (trained, lead)
    assert (found.accuracy.mean, found.documents) == (1.0, 8)
    assert found.p_value == pytest.approx(2 / 256, abs=0.003)
    both = differences(frame, permutations([trained, lead], 2))
    assert both[trained, lead].p_value == pytest.approx(2 * found.p_value), "corrected for two"
    assert difference(of_trained, of_trained.clear()) is None
    assert documents_needed(*align(of_trained, of_trained.clear())[:3]) is None


@pytest.mark.parametrize(
    ("successes", "count", "low", "high"),
    [(0, 20, 0.0, 0.1611), (88, 100, 0.8019, 0.9300), (13, 13, 0.7719, 1.0), (1, 1, 0.2065, 1)],
)
def test_successes_have_wilson_s_range(successes: int, count: int, low: float, high: float) -> None:
    found = share_interval(successes, count)
    assert found.low <= found.mean == successes / count <= found.high, "a chart could not draw it"
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-4)


def sampled(successes: dict[str, list[float | None]]) -> pl.DataFrame:
    """Attempts at some scenarios; None has no score."""
    rows = []
    for scenario, outcomes in successes.items():
        for outcome in outcomes:
            metrics = json.dumps({} if outcome is None else {"success": outcome})
            cause = "timeout" if outcome is None else None
            rows.append({"scenario_id": scenario, "metrics": metrics, "cause": cause})
    return pl.DataFrame(rows)


@given(st.lists(st.booleans(), min_size=1, max_size=8), st.integers(1, 8))
def test_the_estimate_is_the_share_of_draws_that_hold_a_success(won: list[bool], k: int) -> None:
    k = min(k, len(won))
    draws = list(combinations(won, k))
    share = sum(map(any, draws)) / len(draws)
    found, _ = pass_at(sampled({"a": [*map(float, won)]}), k)
    assert found is not None and found.mean == pytest.approx(share)


def test_pass_at_k_is_the_mean_over_scenarios() -> None:
    rows = sampled({"a": [1, 0, 0, 0], "b": [0, 0, 0, 0], "c": [1, 1, 1, 1]})
    one, two, all_four = (pass_at(rows, k)[0] for k in (1, 2, 4))
    assert one is not None and two is not None and all_four is not None
    assert one.mean == pytest.approx((0.25 + 0 + 1) / 3)
    assert two.mean == pytest.approx((0.5 + 0 + 1) / 3)
    assert all_four.mean == pytest.approx(2 / 3)
    assert one.low < one.mean < one.high
    assert [list(sizes_up_to(count)) for count in (0, 1, 6)] == [[], [1], [1, 2, 4, 6]]
    rows = sampled({"a": [1, None], "b": [0, 0]})  # without a score it is no failure
    (one, both), (two, alone) = pass_at(rows, 1), pass_at(rows, 2)
    assert one is not None and one.mean == 0.5 and both == 2
    assert two is not None and two.mean == 0.0 and alone == 1, "`a` has one attempt"
    assert pass_at(sampled({"a": [None]}), 1) == (None, 0)
