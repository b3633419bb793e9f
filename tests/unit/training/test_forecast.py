"""What a run is forecast to have judged."""

from typing import Any

from precis.config import TrainConfig
from precis.environments.summaries.forecast import (
    forecast_judging,
    forecast_service,
)
from precis.records.spend import Estimate
from precis.records.warm_start import WarmStartRecord
from precis.run.outlook import RunPlan, outlook
from precis.settings.tinker import TinkerTrainer
from tests.support.bridges import CORPUS
from tests.support.ledgers import EMPTY, record


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
    return int(ahead.figures["calls"])


WARM = {"scenarios": 6, "samples": 3, "measured_scenarios": 2}


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


def test_the_rest_of_a_run_is_judged_by_its_steps_and_not_by_its_warm_start() -> None:
    made = WarmStartRecord(
        source="teacher", scenarios=9, demonstrations=9, left_out={}, reward=None, usd=40.0
    )
    warm = record(0, usd=0.0).model_copy(update={"warm_start": made, "seconds": {"collect": 900}})
    ledger = EMPTY.advance(warm).charge(40.0)
    assert outlook(ledger, RunPlan(5, 2)).usd_at_end is None
    ahead = outlook(ledger.advance(record(1, usd=0.25)), RunPlan(5, 2))
    assert ahead.usd_at_end == 40.25 + 3 * 0.25
    assert ahead.seconds_left == 3.0


def charged(next_step: int = 0, **trainer: Any) -> Estimate:
    """What a service charges for: five steps of 2 × 4, validated at the beginning and the end."""
    given = {
        "store": "/s",
        "steps": 5,
        "benchmark": False,
        "rollouts": {"groups_per_step": 2, "rollouts_per_group": 4, "words_max": 100},
        "trainer": {"kind": "tinker", **trainer},
    }
    config = TrainConfig.model_validate(given)
    assert isinstance(config.trainer, TinkerTrainer)
    return forecast_service(config, config.trainer, next_step, CORPUS.validation)


def test_a_service_reads_and_samples_each_summary_and_trains_on_those_of_steps() -> None:
    summaries = 5 * 8 + 2 * len(CORPUS.validation)
    ahead = charged()
    assert ahead.figures["sampled"] == summaries * 150
    a_document = ahead.figures["read"] / summaries
    assert ahead.figures["trained"] == round(5 * 8 * (a_document + 150))
    assert charged(4).figures["trained"] * 5 == ahead.figures["trained"]


def test_a_service_without_prices_has_no_forecast_in_dollars() -> None:
    assert charged().usd is None
    assert "at prices that are not given" in str(charged())
    priced = charged(prices=[1, 10, 100])
    expected = (
        priced.figures["read"] + 10 * priced.figures["sampled"] + 100 * priced.figures["trained"]
    )
    assert priced.usd == expected / 1_000_000
    assert f"about ${priced.usd:,.2f}" in str(priced)
