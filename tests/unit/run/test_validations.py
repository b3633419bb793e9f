"""Gains between validations, and where reward and second judge part ways."""

from collections.abc import Sequence

import pytest

from precis.records.ledger import Validation
from precis.run.validations import gain, last_gain, parted
from tests.support.validations import DOCUMENTS, correct, validation


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


def test_validations_of_other_scenarios_say_nothing() -> None:
    fewer = validation(0, correct(0.4)[1:])
    assert gain(fewer, validation(10, correct(0.65))) is None
    other = validation(0, correct(0.4))
    harder = other.score.model_copy(update={"weights": (5,) * DOCUMENTS})
    other = other.model_copy(update={"metrics": {"accuracy": harder}})
    assert gain(other, validation(10, correct(0.65))) is None


def test_a_gain_that_the_second_judge_does_not_see_is_told() -> None:
    run = [
        validation(0, correct(0.4), correct(0.4)),
        validation(10, correct(0.7), correct(0.4, shift=2)),
    ]
    found = parted(run)
    assert found and "from step 0 to 10" in found and "points more" in found


def test_a_gain_that_both_see_is_none_to_warn_of() -> None:
    run = [
        validation(0, correct(0.4), correct(0.3)),
        validation(10, correct(0.7), correct(0.6, shift=2)),
    ]
    assert parted(run) is None


def test_no_gain_at_all_is_none_to_warn_of() -> None:
    run = [validation(0, correct(0.4), correct(0.4)), validation(10, correct(0.4), correct(0.2))]
    assert parted(run) is None


def test_a_run_that_goes_astray_late_is_compared_with_its_best() -> None:
    run = [
        validation(0, correct(0.2), correct(0.2)),
        validation(10, correct(0.5), correct(0.5, shift=2)),
        validation(20, correct(0.8), correct(0.5)),
    ]
    found = parted(run)
    assert found and "from step 10 to 20" in found


def test_opinions_of_another_judge_are_not_compared() -> None:
    run = [
        validation(0, correct(0.4), correct(0.4), judge="a"),
        validation(10, correct(0.7), correct(0.4)),
    ]
    assert parted(run) is None
    assert parted([]) is None
    assert parted([validation(0, correct(0.4)), validation(10, correct(0.7))]) is None


def following(run: Sequence[Validation], now: Validation) -> Validation:
    return now.model_copy(update={"last_gain": last_gain(run, now)})


def test_the_last_gain_is_kept_until_there_is_another_beyond_chance() -> None:
    run: list[Validation] = []
    for step, share, shift in ((0, 0.4, 0), (10, 0.4, 3), (20, 0.7, 0), (30, 0.7, 1)):
        run.append(following(run, validation(step, correct(share, shift))))
    assert [one.last_gain for one in run] == [0, 0, 20, 20]


def test_small_gains_add_up() -> None:
    start = [2, 1] * 20
    run = [following([], validation(0, start))]
    for step, more in ((10, 1), (20, 4), (30, 12)):
        counts = [count + (place < more) for place, count in enumerate(start)]
        run.append(following(run, validation(step, counts)))
    assert [one.last_gain for one in run] == [0, 0, 20, 30]


def test_a_validation_that_is_made_again_is_not_compared_with_itself() -> None:
    run = [following([], validation(0, correct(0.4)))]
    run.append(following(run, validation(10, correct(0.7))))
    assert last_gain(run, validation(10, correct(0.4, shift=2))) == 0


def test_where_too_few_documents_can_say_every_validation_is_a_gain() -> None:
    few: list[int | None] = [3, 3, 3, 3] + [None] * (DOCUMENTS - 4)
    run = [following([], validation(0, few))]
    assert last_gain(run, validation(10, few)) == 10
