"""The ledger: what it takes, what it refuses, and its numbers as a table."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from precis.records.ledger import Ledger, Validation
from precis.records.metrics import metrics_frame
from precis.records.spend import Spend
from tests.support.ledgers import EMPTY, record, validation, variance, warm_start

share = st.floats(0, 1)


@given(rewards=st.lists(share, max_size=8), validated=st.lists(st.integers(0, 8), max_size=5))
def test_a_ledger_survives_the_store_unchanged(rewards: list[float], validated: list[int]) -> None:
    ledger = EMPTY
    for step, reward in enumerate(rewards):
        ledger = ledger.advance(record(step, reward))
    for step in validated:
        ledger = ledger.add_validation(validation(step))
    assert Ledger.model_validate_json(ledger.model_dump_json()) == ledger
    assert ledger.next_step == len(rewards)
    assert [one.step for one in ledger.validations] == sorted(set(validated))
    again = ledger.add_validation(validation(0, 0.9)).validations
    assert again[0] == validation(0, 0.9), "validating again replaces the earlier figure"
    assert ledger.usd == pytest.approx(0.25 * len(rewards))


def test_a_step_cannot_be_skipped_or_repeated() -> None:
    ledger = EMPTY.advance(record(0))
    for step in (0, 2):
        with pytest.raises(ValidationError, match="do not run from 0"):
            ledger.advance(record(step))
    rebuilt = {**EMPTY.model_dump(), "next_step": 2, "rebuilt_at": 2}
    with pytest.raises(ValidationError, match="do not run from 2"):
        Ledger.model_validate({**rebuilt, "steps": (record(0), record(0))})


@given(rewards=st.lists(share, min_size=1, max_size=8), back=st.integers(0, 8))
def test_rewinding_forgets_later_steps_and_no_money(rewards: list[float], back: int) -> None:
    ledger = EMPTY
    for step, reward in enumerate(rewards):
        usd = reward / 3
        judge = Spend(usd=0.25, unpriced=int(reward > 0.5))
        ledger = ledger.advance(record(step, reward, judge=judge))
        ledger = ledger.add_validation(validation(step + 1), usd)
    ledger = ledger.charge(0.1, pending_usd=0.1)
    step = min(back, len(rewards))
    rewound = ledger.rewind(step)
    assert (rewound.next_step, rewound.steps) == (step, ledger.steps[:step])
    assert rewound.validations == ledger.validations[:step]
    assert (rewound.usd, rewound.is_lower_bound) == (ledger.usd, ledger.is_lower_bound)
    assert rewound.settle(is_recorded=True).other_usd >= 0


def test_pending_spend_is_taken_back_where_a_step_brings_it() -> None:
    ended = EMPTY.charge(3.0, pending_usd=2.0)
    assert ended.settle(is_recorded=False) == EMPTY.charge(3.0)
    assert ended.settle(is_recorded=True) == EMPTY.charge(1.0)


def validated(*gains: int) -> Ledger:
    """A run that is validated at each step, where those named gained."""
    ledger = EMPTY
    newest = 0
    for step in range(5):
        newest = step if step in gains else newest
        known = validation(step, 0.6 if step == 2 else 0.5, last_gain=newest)
        ledger = ledger.add_validation(known)
        if step < 4:
            ledger = ledger.advance(record(step))
    return ledger


@pytest.mark.parametrize(
    ("gains", "patience", "stops"),
    [((0,), 4, True), ((0,), 5, False), ((0, 2), 2, True), ((0, 3), 2, False), ((0,), 0, False)],
)
def test_a_run_stops_when_patience_ends(gains: tuple[int, ...], patience: int, stops: bool) -> None:
    ledger = validated(*gains)
    assert ledger.stop_early(patience, steps=9).stopped_early == (4 if stops else None)
    assert ledger.stop_early(patience, steps=4).stopped_early is None, "it is at its last step"
    between_validations = ledger.advance(record(4))
    assert between_validations.stop_early(patience, steps=9).stopped_early is None


def test_the_validation_of_a_warm_start_takes_no_patience() -> None:
    """One that gained nothing would end a run of patience 1 before its first step."""
    ledger = EMPTY.advance(record(0, warm_start=warm_start()))
    for step in (0, 1):
        ledger = ledger.add_validation(validation(step, last_gain=0))
    assert ledger.stop_early(1, steps=9).stopped_early is None
    later = ledger.advance(record(1)).add_validation(validation(2, last_gain=0))
    assert later.stop_early(1, steps=9).stopped_early == 2
    assert later.stop_early(2, steps=9).stopped_early is None


def test_the_model_of_a_run_that_stopped_early_is_its_best() -> None:
    stopped = validated(0).stop_early(2, steps=9)
    assert stopped.final and stopped.final.step == 2
    again = stopped.stop_early(0, steps=9)
    assert again.final and again.final.step == 4
    assert stopped.rewind(3).stopped_early is None


def test_measures_of_the_groups_are_kept_by_adapter_and_what_they_cost_counts() -> None:
    ledger = EMPTY.add_variance(variance(1), 0.5)
    ledger = ledger.add_variance(variance(0), 0.5).add_variance(variance(1, 9), 0.25)
    assert [(one.step, one.varied) for one in ledger.variances] == [(0, 7), (1, 9)]
    assert ledger.usd == 1.25
    assert Ledger.model_validate_json(ledger.model_dump_json()) == ledger
    begun = EMPTY.add_variance(variance(0)).advance(record(0)).add_variance(variance(1))
    assert [one.step for one in begun.restart(0).variances] == [0], "it measures again"
    assert begun.restart(1).variances == begun.variances


def test_a_validation_has_what_it_is_measured_by() -> None:
    known = validation(0).model_dump()
    with pytest.raises(ValidationError, match="the validation of step 0 lacks 'win_rate'"):
        Validation.model_validate({**known, "measure": "win_rate"})
    assert validation(0, 0.25).score.value == 0.25


def test_a_run_is_a_row_for_each_adapter() -> None:
    ledger = EMPTY.add_validation(validation(0, 0.25))
    ledger = ledger.advance(record(0, unscored={"timeout": 2}, machine_usd=2.0))
    ledger = ledger.advance(record(1, reward=1)).add_validation(validation(2, 0.75))
    frame = metrics_frame(ledger)
    shown = frame.select("step", "reward", "unscored", "unscored/timeout", "val/accuracy")
    assert shown.rows() == [(0, 0.5, 2, 2, 0.25), (1, 1.0, 0, None, None), (2, *[None] * 3, 0.75)]
    assert frame["seconds/gather"].to_list() == [1.0, 1.0, None]
    assert frame["judge/usd"].to_list() == [0.25, 0.25, None]
    assert frame["usd"].to_list() == [2.25, 0.25, None], "with the machine"

    stray = {"validations": [*ledger.validations, validation(3, 0.5)]}
    assert metrics_frame(ledger.model_copy(update=stray)).equals(frame), "it has no such adapter"


def test_a_warm_start_has_columns_of_its_own() -> None:
    made = warm_start(demonstrations=3, left_out={"not_scored": 1}, reward=0.5)
    ledger = EMPTY.add_variance(variance(0)).advance(record(0, warm_start=made)).advance(record(1))
    frame = metrics_frame(ledger)
    assert frame["warm_start/demonstrations"].to_list() == [3, None, None]
    assert frame["warm_start/left_out"].to_list() == [1, None, None]
    assert frame["warm_start/reward"].to_list() == [0.5, None, None]
    assert frame["groups_varied"].to_list() == [7, None, None]
