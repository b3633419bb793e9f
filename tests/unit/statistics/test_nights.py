import polars as pl

from precis.statistics.nights import NightlyChange, changes
from precis.statistics.standings import Contender
from tests.support.results import rows

RIGHT, WRONG = [True] * 5, [False] * 5


def night(model: str, correct: int, documents: int = 20, step: int | None = None) -> pl.DataFrame:
    """A contender with so many answers right on every document."""
    answers = [True] * correct + [False] * (5 - correct)
    return rows(model, {f"d{index}": answers for index in range(documents)}, step)


def regressions(tonight: pl.DataFrame, before: pl.DataFrame) -> list[NightlyChange]:
    """The contenders that do worse tonight than before, beyond chance; worst first."""
    return [change for change in changes(tonight, before) if change.is_regression]


def test_a_contender_that_lost_answers_everywhere_is_a_regression() -> None:
    (found,) = regressions(night("gpt-4o", 2), night("gpt-4o", 3))
    assert found.contender == Contender("gpt-4o")
    assert found.difference.accuracy.mean == -0.25
    assert str(found).startswith("gpt-4o: -25.0 points (-37.6 to -20.8) on 20 scenarios, corrected")
    (averaged,) = changes(night("m", 3), pl.concat([night("m", 2), night("m", 4)]))
    assert averaged.difference.accuracy.mean == 0
    assert changes(night("m", 2), night("m", 4).clear()) == []


def test_what_one_comparison_would_flag_is_no_alarm_among_four() -> None:
    before = rows("m", {f"d{i}": RIGHT for i in range(20)})
    tonight = rows("m", {f"d{i}": WRONG if i < 7 else RIGHT for i in range(20)})
    others = [f"other-{index}" for index in range(3)]
    even = [rows(name, {f"d{i}": RIGHT if i % 2 else WRONG for i in range(20)}) for name in others]
    odd = [rows(name, {f"d{i}": WRONG if i % 2 else RIGHT for i in range(20)}) for name in others]
    assert [found.contender.model for found in regressions(tonight, before)] == ["m"]
    worst, *_ = changes(pl.concat([tonight, *even]), pl.concat([before, *odd]))
    assert worst.contender == Contender("m")
    assert worst.difference.accuracy.high < 0
    assert not worst.is_regression


def test_the_newest_checkpoint_is_compared_with_the_newest_before() -> None:
    before = pl.concat([night("trained", 1, step=0), night("trained", 4, step=30)])
    tonight = pl.concat([night("trained", 1, step=0), night("trained", 2, step=40)])
    (found,) = regressions(tonight, before)
    assert (found.contender, found.before) == (Contender("trained", 40), Contender("trained", 30))
    assert "against trained@30" in str(found)
