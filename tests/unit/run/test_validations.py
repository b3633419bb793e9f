"""Gains between validations, and where reward and second judge part ways."""

from collections.abc import Sequence

import pytest

from precis.records.ledger import SecondOpinion, Validation
from precis.run.validations import divergence, gain

DOCUMENTS = 40
ASKED = (4,) * DOCUMENTS


def correct(share: float, shift: int = 0) -> tuple[int, ...]:
    """Four questions a document, of which `share` are answered, spread by a fixed pattern."""
    pattern = [(place * 7 + shift) % 5 - 2 for place in range(DOCUMENTS)]
    return tuple(min(4, max(0, round(4 * share + 0.5 * off))) for off in pattern)


def validation(
    step: int,
    first: Sequence[int | None],
    second: Sequence[int | None] | None = None,
    judge: str = "b",
) -> Validation:
    opinion = None
    if second is not None:
        opinion = SecondOpinion(
            judge=judge, accuracy=_share(second), low=0, high=1, correct=tuple(second)
        )
    return Validation(
        step=step,
        accuracy=_share(first),
        low=0,
        high=1,
        words=300,
        seconds=1,
        unscored={},
        correct=tuple(first),
        asked=ASKED,
        second=opinion,
    )


def _share(counts: Sequence[int | None]) -> float:
    known = [count for count in counts if count is not None]
    return sum(known) / (4 * len(known))


def test_a_gain_is_paired_over_the_documents() -> None:
    found = gain(validation(0, correct(0.4)), validation(10, correct(0.65)))
    assert found and found.low > 0
    same = gain(validation(0, correct(0.4)), validation(10, correct(0.4, shift=3)))
    assert same and same.low < 0 < same.high


def test_documents_that_one_validation_lacks_do_not_count() -> None:
    holes: list[int | None] = [None] * 3 + list(correct(0.65))[3:]
    found = gain(validation(0, (0, 0, 0, *correct(0.4)[3:])), validation(10, holes))
    assert found and found.mean == pytest.approx(0.25)


def test_too_few_documents_say_nothing() -> None:
    few: list[int | None] = [3, 3, 3, 3] + [None] * (DOCUMENTS - 4)
    assert gain(validation(0, correct(0.4)), validation(10, few)) is None


def test_validations_of_before_counts_were_kept_say_nothing() -> None:
    old = validation(0, correct(0.4)).model_copy(update={"correct": (), "asked": ()})
    assert gain(old, validation(10, correct(0.65))) is None
    assert gain(old, old) is None


def test_a_gain_that_the_second_judge_does_not_see_is_told() -> None:
    run = [
        validation(0, correct(0.4), correct(0.4)),
        validation(10, correct(0.7), correct(0.4, shift=2)),
    ]
    found = divergence(run)
    assert found and (found.since, found.step) == (0, 10)
    assert "from step 0 to 10" in str(found) and "points more" in str(found)


def test_a_gain_that_both_see_is_none_to_warn_of() -> None:
    run = [
        validation(0, correct(0.4), correct(0.3)),
        validation(10, correct(0.7), correct(0.6, shift=2)),
    ]
    assert divergence(run) is None


def test_no_gain_at_all_is_none_to_warn_of() -> None:
    run = [validation(0, correct(0.4), correct(0.4)), validation(10, correct(0.4), correct(0.2))]
    assert divergence(run) is None


def test_a_run_that_goes_astray_late_is_compared_with_its_best() -> None:
    run = [
        validation(0, correct(0.2), correct(0.2)),
        validation(10, correct(0.5), correct(0.5, shift=2)),
        validation(20, correct(0.8), correct(0.5)),
    ]
    found = divergence(run)
    assert found and found.since == 10


def test_opinions_of_another_judge_are_not_compared() -> None:
    run = [
        validation(0, correct(0.4), correct(0.4), judge="a"),
        validation(10, correct(0.7), correct(0.4)),
    ]
    assert divergence(run) is None
    assert divergence([]) is None
    assert divergence([validation(0, correct(0.4)), validation(10, correct(0.7))]) is None
