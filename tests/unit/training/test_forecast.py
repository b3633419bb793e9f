"""What a run is forecast to have judged."""

import json
from typing import Any

from precis.config import JudgeConfig, RateLimits, TrainConfig
from precis.environments.ruler import TrajectoryRuler
from precis.environments.summaries.environment import Summaries
from precis.environments.summaries.forecast import (
    forecast_judging,
    forecast_second_judge,
    forecast_service,
)
from precis.environments.summaries.judge import Endpoint, JudgeClient
from precis.environments.summaries.judge.forecast import forecast
from precis.environments.summaries.judge.protocol import grade_prompt, reading_prompt
from precis.environments.summaries.services import Services
from precis.records.spend import Estimate
from precis.runs.outlook import RunPlan, outlook
from precis.settings.tinker import TinkerTrainer
from tests.support.bridges import CORPUS
from tests.support.ledgers import EMPTY, record, warm_start
from tests.support.reports import numbers_in


def config(**settings: Any) -> TrainConfig:
    """Five steps of 2 × 4, validated at the beginning and at the end."""
    rollouts = {"groups_per_step": 2, "rollouts_per_group": 4, **settings.pop("rollouts", {})}
    given = {"store": "/s", "steps": 5, "benchmark": False, "rollouts": rollouts}
    return TrainConfig.model_validate({**given, **settings})


def calls(next_step: int = 0, documents: int = 0, **settings: Any) -> int:
    """The calls for such a run."""
    run = config(**settings)
    ahead = forecast_judging(run, next_step, CORPUS.validation, "lexical-judge", documents)
    return numbers_in(ahead)[0]


WARM = {"scenarios": 6, "samples": 3, "measured_scenarios": 2}


def test_a_warm_start_takes_the_place_of_a_step_and_a_teachers_is_not_judged() -> None:
    a_summary = calls() // (5 * 8 + 2 * 4)
    validated = 4
    measured = 2 * 2 * 4
    own = calls(documents=6, warm_start=WARM)
    assert own - calls() == a_summary * (6 * 3 + measured + validated - 8)
    teacher = {"model": "t", "provider": "url", "base_url": "http://127.0.0.1:9/v1"}
    taught = {**WARM, "source": "teacher", "teacher": teacher}
    assert own - calls(documents=6, warm_start=taught) == a_summary * 6 * 3


def test_the_requests_to_a_judge_count_with_their_schema_and_answers_of_a_sentence() -> None:
    """By which a budget must last: a server counts whole requests."""
    settings = JudgeConfig(provider="url", base_url="http://127.0.0.1:9/v1", model="m")
    documents = CORPUS.validation[:1]
    [document] = documents
    usd = []
    for price in ((1e6, 0.0), (0.0, 1e6)):
        priced = settings.model_copy(update={"prices": {"m": price}})
        usd.append(forecast(priced, "m", documents, summaries=1, ceiling=False).usd or 0.0)
    prompts, answers = usd
    head = " ".join(document.text.split()[:350])
    graded = [(one, one.answer) for one in document.questions if one.answerable]
    bodies = 0
    for prompt in (reading_prompt(head, document.questions, "batched"), grade_prompt(graded)):
        bodies += len(json.dumps([prompt.messages, prompt.schema]))
    assert prompts >= bodies / 4
    assert answers >= 40 * len(document.questions)


def test_each_validation_that_is_left_counts_once_and_the_last_one_too() -> None:
    run = config(steps=25, validate_every=10)
    assert list(filter(run.validates, range(26))) == [0, 10, 20, 25]
    a_summary = calls() // (5 * 8 + 2 * 4)
    assert calls(4) == a_summary * (8 + 4), "the first one is past"


def test_the_rest_of_a_run_is_judged_by_its_steps_and_not_by_its_warm_start() -> None:
    made = warm_start(source="teacher", usd=40.0)
    warm = record(0, usd=0.0, warm_start=made, seconds={"collect": 900})
    ledger = EMPTY.advance(warm).charge(43.0)  # 3 for a failed start
    assert outlook(ledger, RunPlan(5, 2)).usd_at_end is None
    ahead = outlook(ledger.advance(record(1, usd=0.25)), RunPlan(5, 2))
    assert ahead.usd_at_end == 43.25 + 3 * 0.25
    assert ahead.seconds_left == 3.0


async def test_summaries_that_ruler_ranks_are_forecast_as_its_groups() -> None:
    run = config(rollouts={"reward": "ruler"}, judge={"provider": "openrouter"})
    endpoint = Endpoint("http://127.0.0.1:9/v1", "m", "key")
    async with (
        JudgeClient(endpoint, run.judge) as judge,
        TrajectoryRuler(endpoint, run.judge, "") as ruler,
    ):
        environment = Summaries(CORPUS, run.rollouts, Services(judge, ruler))
        of_judge, of_ruler = environment.forecasts(run, 0)
    assert numbers_in(of_judge)[0] == 2 * (2 * 4)
    assert numbers_in(of_ruler)[0] == 5 * 2


def charged(next_step: int = 0, benchmark: bool = False, **trainer: Any) -> Estimate:
    """What a service charges for: five steps of 2 × 4, validated at the beginning and the end."""
    service = {"kind": "tinker", **trainer}
    run = config(benchmark=benchmark, rollouts={"words_max": 100}, trainer=service)
    assert isinstance(run.trainer, TinkerTrainer)
    return forecast_service(run, run.trainer, next_step, CORPUS.validation)


def test_a_service_reads_and_samples_each_summary_and_trains_on_those_of_steps() -> None:
    summaries = 5 * 8 + 2 * len(CORPUS.validation)
    read, sampled, trained = numbers_in(charged())
    assert sampled == summaries * 150
    assert trained == round(5 * 8 * (read / summaries + 150))
    assert numbers_in(charged(4))[2] * 5 == trained
    # A benchmark's baselines are no checkpoints.
    benchmarked = summaries + (5 + 1) * len(CORPUS.validation)
    assert numbers_in(charged(benchmark=True))[1] == benchmarked * 150


def test_a_service_without_prices_has_no_forecast_in_dollars() -> None:
    assert charged().usd is None
    assert "at prices that are not given" in str(charged())
    priced = charged(prices=[1, 10, 100])
    read, sampled, trained, *_ = numbers_in(priced)
    assert priced.usd == (read + 10 * sampled + 100 * trained) / 1_000_000
    assert f"about ${priced.usd:,.2f}" in str(priced)


def test_a_daily_quota_that_does_not_suffice_is_told_with_what_to_do() -> None:
    def with_quota(requests_per_day: int) -> Estimate:
        limits = RateLimits(requests_per_day=requests_per_day)
        judge = JudgeConfig(provider="google", limits=limits)
        return forecast(judge, "google/gemini-2.5-flash", CORPUS.validation, summaries=1000)

    short = with_quota(250)
    [warning] = short.warnings
    assert "needs 9 days of it" in warning and "lower steps" in warning
    assert "quota" not in str(short), "it is told once"
    assert with_quota(5000).warnings == ()


def test_the_second_judge_is_asked_in_validations_alone() -> None:
    judge = {"provider": "openrouter"}
    run = config(steps=30, validate_every=10, judge=judge, second_judge=judge)
    held_out = CORPUS.validation
    ahead = forecast_second_judge(run, 0, held_out, "openai/gpt-4.1")
    assert ahead is not None and ahead.usd is not None and ahead.usd > 0
    assert numbers_in(ahead)[0] == 2 * 4 * 4  # two calls, four validations, four documents
    assert str(ahead).startswith("The second judge will be called")
    first = forecast_judging(run, 0, held_out, "google/gemini-2.5-flash")
    assert numbers_in(first)[0] == 2 * (30 * 2 * 4 + 4 * 4)
