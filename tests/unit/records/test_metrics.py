"""A run's numbers as a table."""

from precis.records.metrics import metrics_frame
from precis.records.warm_start import WarmStartRecord
from tests.support.ledgers import EMPTY, record, validation, variance


def test_a_run_is_a_row_for_each_adapter() -> None:
    ledger = EMPTY.add_validation(validation(0, 0.25))
    first = record(0, reward=0.5).model_copy(update={"unscored": {"timeout": 2}})
    ledger = ledger.advance(first).advance(record(1, reward=1)).add_validation(validation(2, 0.75))
    frame = metrics_frame(ledger)
    shown = frame.select("step", "reward", "unscored", "unscored/timeout", "val/accuracy")
    assert shown.rows() == [(0, 0.5, 2, 2, 0.25), (1, 1.0, 0, None, None), (2, *[None] * 3, 0.75)]
    assert frame["seconds/gather"].to_list() == [1.0, 1.0, None]
    assert frame["judge/usd"].to_list() == [0.25, 0.25, None]


def test_a_validation_of_an_adapter_that_the_run_does_not_have_has_no_row() -> None:
    ledger = EMPTY.add_validation(validation(0, 0.25))
    stray = ledger.model_copy(update={"validations": [*ledger.validations, validation(3, 0.5)]})
    assert metrics_frame(stray)["val/accuracy"].to_list() == [0.25]


def test_a_warm_start_has_columns_of_its_own() -> None:
    made = WarmStartRecord(
        source="best_of_n", scenarios=4, demonstrations=3, left_out={"not_scored": 1}, reward=0.5
    )
    ledger = EMPTY.add_variance(variance(0))
    ledger = ledger.advance(record(0).model_copy(update={"warm_start": made})).advance(record(1))
    frame = metrics_frame(ledger)
    assert frame["warm_start/demonstrations"].to_list() == [3, None, None]
    assert frame["warm_start/left_out"].to_list() == [1, None, None]
    assert frame["warm_start/reward"].to_list() == [0.5, None, None]
    assert frame["groups_varied"].to_list() == [7, None, None]
