"""What a run left out and paid is shown as a sum over its steps."""

from precis.records.ledger import Ledger
from precis.records.spend import Spend
from precis.records.warm_start import WarmStartRecord
from precis.report.training_report import totals
from precis.run.outlook import RunPlan, outlook
from tests.support.ledgers import EMPTY, record, variance


def shown(ledger: Ledger, steps: int = 3, budget_usd: float | None = None) -> str:
    return totals(ledger, outlook(ledger, RunPlan(steps, budget_usd=budget_usd)))


def test_causes_and_dollars_are_summed() -> None:
    ledger = EMPTY
    for step in range(3):
        changes = {
            "groups_dropped": {"zero_variance": 2},
            "unscored": {"timeout": 1, "odd|<cause>": 1},
            "judge": Spend(calls=10, cached=1, prompt_tokens=1000, usd=0.5),
        }
        ledger = ledger.advance(record(step).model_copy(update=changes))
    text = shown(ledger)
    assert "| Groups dropped | 6 zero_variance |" in text
    assert "| Rollouts not scored | 3 odd&#124;&#60;cause&#62;, 3 timeout |" in text
    assert "30 calls and 3 from the cache, 3,000 tokens" in text
    assert "$1.50" in text
    unpriced = record(0).model_copy(update={"judge": Spend(calls=10, unpriced=10)})
    assert "unknown price" in shown(EMPTY.advance(unpriced)), "and that is no zero"


def test_what_the_machine_costs_and_spot_saves_is_said_and_foretold() -> None:
    ledger = EMPTY
    for step in range(2):
        machine = {"machine_usd": 1.5, "machine_saved_usd": 2.25}
        ledger = ledger.advance(record(step, usd=0.5).model_copy(update=machine))
    text = shown(ledger, 10)
    assert "| $4.00, $3.00 of it for the training, where spot saved $4.50 |" in text
    assert "about $20.00" in text and "Warm start" not in text


def test_the_forecast_says_where_the_budget_ends() -> None:
    ledger = EMPTY.advance(record(0, usd=0.5))
    assert "about $5.00; the budget is reached at step 4" in shown(ledger, 10, budget_usd=2.0)
    assert "about $5.00 |" in shown(ledger, 10, budget_usd=6.0)


def test_what_was_sampled_ahead_is_said_where_anything_was() -> None:
    ledger = EMPTY.advance(record(0))
    assert "one step ahead" not in shown(ledger)
    for step in (1, 2):
        stale = record(step).model_copy(update={"staleness": 1, "overlapped_s": 2.25})
        ledger = ledger.advance(stale)
    line = "| Sampled one step ahead | 2 of 3 steps, 4.5 s of it beside the training |"
    assert line in shown(ledger)


def test_a_warm_start_is_told_with_what_became_of_the_groups() -> None:
    made = WarmStartRecord(
        source="best_of_n",
        scenarios=40,
        demonstrations=38,
        left_out={"nothing_earned": 2},
        reward=0.5,
    )
    ledger = EMPTY.add_variance(variance(0, 7))
    assert "| Warm start | 7 of 20 groups with rewards that differ before it |" in shown(ledger)
    warm = record(0).model_copy(update={"warm_start": made})
    ledger = ledger.advance(warm).add_variance(variance(1, 18))
    (row,) = [line for line in shown(ledger).splitlines() if "Warm start" in line]
    assert "38 demonstrations imitated (best_of_n) with a mean reward of 0.5" in row
    assert "left out 2 nothing_earned" in row
    assert "18 of 20 groups with rewards that differ after it" in row
