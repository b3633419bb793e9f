"""A run's numbers as a table."""

from precis.records.ledger import Ledger
from precis.records.metrics import metrics_frame
from tests.support.ledgers import record, validation


def test_a_run_is_a_row_for_each_adapter() -> None:
    ledger = Ledger(model="m", config="c", corpus="k").add_validation(validation(0, 0.25))
    first = record(0, reward=0.5).model_copy(update={"unscored": {"timeout": 2}})
    ledger = ledger.advance(first).advance(record(1, reward=1)).add_validation(validation(2, 0.75))
    frame = metrics_frame(ledger)
    shown = frame.select("step", "reward", "unscored", "unscored/timeout", "val/accuracy")
    assert shown.rows() == [(0, 0.5, 2, 2, 0.25), (1, 1.0, 0, None, None), (2, *[None] * 3, 0.75)]
    assert frame["seconds/gather"].to_list() == [1.0, 1.0, None]
    assert frame["judge/usd"].to_list() == [0.25, 0.25, None]


def test_a_run_that_has_only_begun_is_one_row() -> None:
    assert metrics_frame(Ledger(model="m", config="c", corpus="k")).rows() == [(0,)]
