"""Gains between validations, and where reward and second judge diverge."""

from collections.abc import Sequence

import pytest

from precis.records.ledger import Validation
from precis.runs.validations import gain, last_gain, parted
from tests.support.validations import DOCUMENTS, correct, validation

FEW: list[int | None] = [3, 3, 3, 3] + [None] * (DOCUMENTS - 4)


def test_documents_that_one_validation_lacks_do_not_count() -> None:
    holes: list[int | None] = [None] * 3 + list(correct(0.65))[3:]
    found = gain(validation(0, (0, 0, 0, *correct(0.4)[3:])), validation(10, holes))
    assert found and found.mean == pytest.approx(0.25)
    assert gain(validation(0, correct(0.4)), validation(10, FEW)) is None
    fewer = validation(0, correct(0.4)[1:])
    assert gain(fewer, validation(10, correct(0.65))) is None
    other = validation(0, correct(0.4))
    harder = other.score.model_copy(update={"weights": (5,) * DOCUMENTS})
    other = other.model_copy(update={"metrics": {"accuracy": harder}})
    assert gain(other, validation(10, correct(0.65))) is None


START = validation(0, correct(0.4), correct(0.4))
GAINED = validation(10, correct(0.7), correct(0.4, shift=2))


@pytest.mark.parametrize(
    ("run", "said"),
    [
        ([START, GAINED], "from step 0 to 10"),
        ([START, validation(10, correct(0.7), correct(0.7, shift=2))], None),
        ([START, validation(10, correct(0.4), correct(0.2))], None),
        # A run that goes astray late is compared with its best.
        (
            [
                validation(0, correct(0.2), correct(0.2)),
                validation(10, correct(0.5), correct(0.5, shift=2)),
                validation(20, correct(0.8), correct(0.5)),
            ],
            "from step 10 to 20",
        ),
        ([validation(0, correct(0.4), correct(0.4), judge="a"), GAINED], None),
        ([validation(0, correct(0.4)), validation(10, correct(0.7))], None),
        ([], None),
    ],
)
def test_a_gain_for_one_judge_alone_is_told(run: list[Validation], said: str | None) -> None:
    found = parted(run)
    assert (found is None) if said is None else (found and said in found)


def following(run: Sequence[Validation], now: Validation) -> Validation:
    return now.model_copy(update={"last_gain": last_gain(run, now)})


def test_the_last_gain_is_kept_until_there_is_another_beyond_chance() -> None:
    run: list[Validation] = []
    for step, share, shift in ((0, 0.4, 0), (10, 0.4, 3), (20, 0.7, 0), (30, 0.7, 1)):
        run.append(following(run, validation(step, correct(share, shift))))
    assert [one.last_gain for one in run] == [0, 0, 20, 20]
    assert last_gain(run[:3], validation(20, correct(0.4, shift=2))) == 0, "it is made again"
    assert last_gain([following([], validation(0, FEW))], validation(10, FEW)) == 10


def test_small_gains_add_up() -> None:
    start = [2, 1] * 20
    run = [following([], validation(0, start))]
    for step, more in ((10, 1), (20, 4), (30, 12)):
        counts = [count + (place < more) for place, count in enumerate(start)]
        run.append(following(run, validation(step, counts)))
    assert [one.last_gain for one in run] == [0, 0, 20, 30]
