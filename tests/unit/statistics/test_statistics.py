import numpy as np
import polars as pl
import pytest

from precis.records.nouns import Figure
from precis.statistics.comparisons import all_pairs, difference, differences, documents_to_see
from precis.statistics.intervals import (
    Interval,
    bca_bounds,
    documents_needed,
    holm,
    paired_difference,
    ratio_interval,
    share_interval,
    smallest_difference,
)
from precis.statistics.standings import Contender, figure_of, summarise
from tests.support.results import rows


def simulated(
    seed: int, documents: int, ease: tuple[float, float] = (2, 2)
) -> tuple[np.ndarray, np.ndarray]:
    """Correct answers and questions of documents that differ in how hard they are.

    The true accuracy is the mean of the Beta distribution of their ease.
    """
    generator = np.random.default_rng(seed)
    asked = generator.integers(3, 6, documents)
    return generator.binomial(asked, generator.beta(*ease, documents)), asked


@pytest.mark.parametrize(
    ("documents", "ease"), [(32, (2, 2)), (32, (8, 1)), (91, (2, 2)), (91, (1, 6))]
)
def test_the_interval_holds_the_truth_in_95_of_100_experiments(
    documents: int, ease: tuple[float, float]
) -> None:
    truth = ease[0] / sum(ease)
    covered = too_high = 0
    for seed in range(1000):
        correct, asked = simulated(seed, documents, ease)
        low, high = bca_bounds(correct.astype(float), asked.astype(float), 0.95, seed, 300)
        covered += low <= truth <= high
        too_high += low > truth
    assert 930 <= covered <= 970
    # 25 should be too high; of plain percentiles near the ceiling 56 are.
    assert too_high <= 40


def test_the_paired_interval_holds_the_true_difference_in_95_of_100_experiments() -> None:
    covered = 0
    for seed in range(1000):
        generator = np.random.default_rng(seed)
        ease, asked = generator.beta(4, 2, 40), generator.integers(3, 6, 40)
        # Where the document is easy for one, it is easy for the other: half as often wrong.
        better = generator.binomial(asked, 1 - (1 - ease) / 2)
        worse = generator.binomial(asked, ease)
        low, high = bca_bounds((better - worse).astype(float), asked.astype(float), 0.95, seed, 300)
        covered += low <= 1 / 6 <= high
    assert 930 <= covered <= 970


def test_one_document_says_nothing_of_the_spread_and_none_is_refused() -> None:
    assert ratio_interval([3], [4]) == Interval(0.75, 0.0, 1.0)
    assert paired_difference([3], [1], [4]).accuracy == Interval(0.5, -1.0, 1.0)
    nothing: list[tuple[list[float], list[float]]] = [([], []), ([1], [1, 2]), ([1, 1], [1, 0])]
    for parts, wholes in nothing:
        with pytest.raises(ValueError, match="one part for each whole"):
            ratio_interval(parts, wholes)


def test_the_permutation_test_agrees_with_counting_by_hand() -> None:
    # Of the 16 ways to swap four documents only two are as extreme as all gains in one direction.
    assert paired_difference([1] * 4, [0] * 4, [4] * 4).p_value == pytest.approx(2 / 16, abs=0.01)


def test_holm_corrects_as_in_the_textbook() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []


def test_the_documents_needed_do_see_the_difference() -> None:
    generator = np.random.default_rng(2)
    asked = np.full(400, 4.0)
    pilot = generator.binomial(4, 0.55, 400), generator.binomial(4, 0.5, 400)
    needed = documents_needed(*pilot, asked, difference=0.05)
    seen = 0
    for seed in range(100):
        first, second = generator.binomial(4, 0.55, needed), generator.binomial(4, 0.5, needed)
        low, high = bca_bounds(
            (first - second).astype(float), np.full(needed, 4.0), 0.95, seed, 200
        )
        seen += low > 0 or high < 0
    assert 65 <= seen <= 95


def test_a_smaller_difference_needs_more_documents() -> None:
    first, second = [1, 2, 3, 4, 2], [2, 1, 3, 2, 2]
    few = documents_needed(first, second, [4] * 5, difference=0.06)
    assert documents_needed(first, second, [4] * 5, difference=0.03) == pytest.approx(
        4 * few, abs=4
    )
    assert smallest_difference(4 * few, few) == pytest.approx(0.06)
    with pytest.raises(ValueError, match="two documents"):
        documents_needed([1], [1], [4])


def test_accuracy_counts_answerable_questions_of_scored_summaries_only() -> None:
    words = Figure("words", "words")
    frame = rows("a", {"d1": [True, True, True, False, False], "d2": [True, False] * 2 + [True]})
    (standing,) = summarise(frame)
    assert standing.accuracy is not None
    assert standing.accuracy.mean == 5 / 8
    assert figure_of(frame, Figure("honest", "declined", "unanswerable")) == 0.5
    assert standing.documents == 2
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


def test_a_contender_with_too_many_unscored_is_not_ranked() -> None:
    good = rows("good but gone", {"d1": [True] * 5, "d2": [None] * 5})
    poor = rows("poor", {"d1": [False] * 5, "d2": [False] * 5})
    ranked = summarise(pl.concat([good, poor]))
    assert [(each.contender.model, each.complete) for each in ranked] == [
        ("poor", True),
        ("good but gone", False),
    ]


def test_differences_are_paired_over_the_documents_both_were_scored_on() -> None:
    trained, lead, gone = Contender("trained", 5), Contender("lead-350"), Contender("gone")
    of_trained = rows("trained", {f"d{index}": [True] * 5 for index in range(9)}, step=5)
    frame = pl.concat(
        [
            of_trained,
            rows("lead-350", {f"d{index}": [False] * 5 for index in range(8)}),
            rows("lead-350", {"d8": [None] * 5}),
            rows("gone", {"d0": [None] * 5}),
        ]
    )
    found = differences(frame, trained, [trained, lead, gone])
    assert list(found) == [lead]
    assert (found[lead].accuracy.mean, found[lead].documents) == (1.0, 8)
    assert found[lead].p_value == pytest.approx(2 / 256, abs=0.003)
    assert difference(of_trained, of_trained.clear()) is None
    assert documents_to_see(of_trained, of_trained.clear()) is None


def test_every_two_contenders_are_compared_once_and_corrected_together() -> None:
    names = [Contender(name) for name in "abcd"]
    frame = pl.concat(
        rows(each.model, {f"d{i}": [i % 4 >= k] * 5 for i in range(20)})
        for k, each in enumerate(names)
    )
    pairs = all_pairs(frame, names)
    assert len(pairs) == 6
    assert pairs[names[0], names[1]].accuracy.mean == pytest.approx(0.25)
    alone = difference(frame.filter(model="a"), frame.filter(model="b"))
    assert alone is not None
    assert pairs[names[0], names[1]].p_value > alone.p_value


@pytest.mark.parametrize(
    ("successes", "count", "low", "high"),
    [(0, 100, 0.0, 0.0370), (88, 100, 0.8019, 0.9300), (100, 100, 0.9630, 1.0), (1, 1, 0.2065, 1)],
)
def test_a_share_of_successes_has_wilson_s_interval(
    successes: int, count: int, low: float, high: float
) -> None:
    found = share_interval(successes, count)
    assert found.mean == successes / count
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-4)
    with pytest.raises(ValueError, match="at least one trial"):
        share_interval(0, 0)
