"""What a run left out and paid is shown as a sum over its steps."""

from precis.judge.spend import Spend
from precis.ledger import Ledger
from precis.report.totals import totals
from tests.unit.test_ledger import record


def test_causes_and_dollars_are_summed() -> None:
    ledger = Ledger(model="m", config="c", corpus="k")
    for step in range(3):
        changes = {
            "groups_dropped": {"zero_variance": 2},
            "unscored": {"timeout": 1},
            "judge": Spend(calls=10, cached=1, prompt_tokens=1000, usd=0.5),
        }
        ledger = ledger.advanced(record(step).model_copy(update=changes))
    shown = totals(ledger)
    assert "| Groups dropped | 6 zero_variance |" in shown
    assert "| Rollouts not scored | 3 timeout |" in shown
    assert "30 calls and 3 from the cache, 3,000 tokens" in shown
    assert "$1.50" in shown


def test_a_price_that_is_not_known_is_no_zero() -> None:
    spent = record(0).model_copy(update={"judge": Spend(calls=10, unpriced=10)})
    ledger = Ledger(model="m", config="c", corpus="k").advanced(spent)
    assert "unknown price" in totals(ledger)


def test_a_run_without_steps_has_nothing_to_say_but_none() -> None:
    assert "| Groups dropped | none |" in totals(Ledger(model="m", config="c", corpus="k"))
