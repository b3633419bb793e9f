"""What a run is forecast to have judged."""

from typing import Any

from precis.config import TrainConfig
from precis.records.ledger import Ledger
from precis.records.warm_start import WarmStartRecord
from precis.run.outlook import RunPlan, outlook
from precis.training.forecast import forecast_judging
from tests.support.bridges import CORPUS
from tests.support.ledgers import record


def calls(next_step: int = 0, documents: int = 0, **settings: Any) -> int:
    """The calls for five steps of 2 × 4, validated at the beginning and at the end."""
    given = {
        "store": "/s",
        "steps": 5,
        "benchmark": False,
        "rollouts": {"groups_per_step": 2, "rollouts_per_group": 4},
        **settings,
    }
    config = TrainConfig.model_validate(given)
    ahead = forecast_judging(config, next_step, CORPUS.validation, "lexical-judge", documents)
    return ahead.calls


WARM = {"documents": 6, "samples": 3, "measured_documents": 2}


def test_a_warm_start_takes_the_place_of_a_step_and_is_validated() -> None:
    a_summary = calls() // (5 * 8 + 2 * 4)
    validated = 4
    measured = 2 * 2 * 4
    warm = calls(documents=6, warm_start=WARM) - calls()
    assert warm == a_summary * (6 * 3 + measured + validated - 8)


def test_a_teachers_summaries_are_not_judged() -> None:
    teacher = {"model": "t", "provider": "url", "base_url": "http://127.0.0.1:9/v1"}
    taught = {**WARM, "source": "teacher", "teacher": teacher}
    a_summary = calls() // (5 * 8 + 2 * 4)
    own = calls(documents=6, warm_start=WARM)
    assert own - calls(documents=6, warm_start=taught) == a_summary * 6 * 3


def test_once_it_is_over_a_warm_start_costs_nothing_more() -> None:
    assert calls(2, documents=6, warm_start=WARM) == calls(2)


def test_what_is_left_of_a_run_counts_the_validation_after_a_warm_start() -> None:
    def left(ledger: Ledger, warm_start: Any) -> int:
        given = {"store": "/s", "steps": 5, "warm_start": warm_start}
        return RunPlan.of(TrainConfig.model_validate(given), ledger).validations_left

    ledger = Ledger(model="m", config="c", corpus="k")
    assert left(ledger, {}) == left(ledger, None) + 1
    later = ledger.advance(record(0)).advance(record(1))
    assert left(later, {}) == left(later, None)


def test_the_rest_of_a_run_is_judged_by_its_steps_and_not_by_its_warm_start() -> None:
    made = WarmStartRecord(
        source="teacher", documents=9, summaries=9, left_out={}, reward=None, usd=40.0
    )
    warm = record(0, usd=0.0).model_copy(update={"warm_start": made, "seconds": {"collect": 900}})
    ledger = Ledger(model="m", config="c", corpus="k").advance(warm).charge(40.0)
    assert outlook(ledger, RunPlan(5, 2)).usd_at_end is None
    ahead = outlook(ledger.advance(record(1, usd=0.25)), RunPlan(5, 2))
    assert ahead.usd_at_end == 40.25 + 3 * 0.25
    assert ahead.seconds_left == 3.0
