"""What a run will take, foretold from what it took."""

from precis.config import TrainConfig
from precis.records.ledger import Ledger
from precis.records.spend import Spend
from precis.run.outlook import RunPlan, outlook
from tests.support.ledgers import EMPTY, record, validation


def ledger_of(steps: int, usd: float = 0.5) -> Ledger:
    ledger = EMPTY
    for step in range(steps):
        ledger = ledger.advance(record(step, usd=usd))
    return ledger


def test_steps_and_validations_that_are_left_cost_what_the_newest_ones_did() -> None:
    ledger = (
        ledger_of(10).add_validation(validation(0), usd=1.0).add_validation(validation(10), usd=2.0)
    )
    ahead = outlook(ledger, RunPlan(30, validations_left=2))
    assert ahead.usd == 8.0
    assert ahead.usd_at_end == 8.0 + 20 * 0.5 + 2 * 1.5
    assert ahead.seconds_left == 20 * 1.0 + 2 * 1.0
    ledger = ledger_of(10, usd=100.0)
    for step in range(10, 30):
        ledger = ledger.advance(record(step, usd=0.5))
    assert outlook(ledger, RunPlan(40)).usd_at_end == 1000 + 10 + 5
    unpriced = record(0).model_copy(update={"judge": Spend(calls=3, unpriced=1)})
    assert outlook(ledger_of(0).advance(unpriced), RunPlan(2)).is_lower_bound


def test_a_budget_that_lasts_is_not_mentioned() -> None:
    assert outlook(ledger_of(2), RunPlan(10, budget_usd=4.0)).budget_step == 8
    assert outlook(ledger_of(2), RunPlan(10, budget_usd=5.5)).budget_step is None
    assert outlook(ledger_of(2, usd=0.0), RunPlan(10, budget_usd=5.5)).budget_step is None


def test_the_validations_that_are_left_follow_from_the_settings() -> None:
    config = TrainConfig(steps=25, validate_every=10, budget_usd=3.0)
    ledger = ledger_of(10).add_validation(validation(0))
    assert RunPlan.of(config, ledger) == RunPlan(25, validations_left=3, budget_usd=3.0)
    assert RunPlan.of(config, ledger.add_validation(validation(10))).validations_left == 2
