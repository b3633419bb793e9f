"""The forecast of what a run asks of its judge."""

import pytest

from precis.config import JudgeConfig, RateLimits
from precis.environments.summaries.judge import JudgeClient
from precis.environments.summaries.judge.forecast import forecast
from precis.llm.forecast import Forecast
from precis.llm.providers import Endpoint
from precis.llm.server import completions_app
from precis.records.documents import Document, Question
from precis.rehearsal.judges.judge import lexical_judge
from tests.support.faulty import FaultyServer

_MODEL = "google/gemini-2.5-flash"


def document(number: int) -> Document:
    answers = ("Anna Ruiz", "$1,200", "40", "on Lake Road")
    asked = ("Who led the town?", "What was spent?", "How many worked?", "Where is the mill?")
    questions = [
        Question(f"{number}-{index}", question, answer, answerable=True)
        for index, (question, answer) in enumerate(zip(asked, answers, strict=True))
    ]
    nothing = Question(f"{number}-x", "Who won the race?", "UNANSWERABLE", answerable=False)
    text = "Anna Ruiz led the town. It spent $1,200. The mill on Lake Road had 40 workers. " * 30
    return Document(str(number), "news", text, (*questions, nothing))


_DOCUMENTS = [document(number) for number in range(4)]
_OPENROUTER = JudgeConfig(provider="openrouter")


def of_run(config: JudgeConfig = _OPENROUTER) -> Forecast:
    return forecast(config, _MODEL, _DOCUMENTS, summaries=1000)


def test_a_summary_takes_two_calls_and_the_notebook_s_protocol_up_to_ten() -> None:
    notebook = _OPENROUTER.model_copy(update={"protocol": "per_question"})
    assert of_run().calls == 2 * 1000 + 2 * 4
    # One of the five questions can't be answered, and so needs no grade.
    assert of_run(notebook).calls == 9 * 1000 + 9 * 4


def test_dollars_are_those_of_the_price_table() -> None:
    run = of_run()
    assert run.usd == pytest.approx((run.prompt_tokens * 0.3 + run.completion_tokens * 2.5) / 1e6)


def test_a_model_without_a_price_says_so_and_a_user_s_price_mends_it() -> None:
    unknown = forecast(_OPENROUTER, "mine", _DOCUMENTS, summaries=10)
    assert unknown.usd is None and "unknown price" in str(unknown)
    settings = _OPENROUTER.model_copy(update={"prices": {"mine": (1.0, 1.0)}})
    priced = forecast(settings, "mine", _DOCUMENTS, summaries=10)
    assert priced.usd is not None and priced.usd > 0


def test_minutes_are_those_of_the_tightest_limit() -> None:
    requests = RateLimits(requests_per_minute=100, in_flight=1000)
    tokens = RateLimits(requests_per_minute=10**6, tokens_per_minute=10_000, in_flight=1000)
    at_once = RateLimits(requests_per_minute=10**6, tokens_per_minute=10**9, in_flight=1)
    by_requests = of_run(JudgeConfig(provider="openrouter", limits=requests))
    by_tokens = of_run(JudgeConfig(provider="openrouter", limits=tokens))
    one_by_one = of_run(JudgeConfig(provider="openrouter", limits=at_once))
    assert by_requests.minutes == pytest.approx(2008 / 100)
    total = by_tokens.prompt_tokens + by_tokens.completion_tokens
    assert by_tokens.minutes == pytest.approx(total / 10_000)
    assert one_by_one.minutes == pytest.approx(2008 / 60)


def test_a_daily_quota_that_does_not_suffice_is_told_with_what_to_do() -> None:
    short = of_run(JudgeConfig(provider="google", limits=RateLimits(requests_per_day=250)))
    assert short.days == 9
    assert "needs 9 days of it" in str(short) and "lower steps" in str(short)
    enough = of_run(JudgeConfig(provider="google", limits=RateLimits(requests_per_day=5000)))
    assert enough.days == 1 and "quota" not in str(enough)


def test_thinking_that_can_t_be_foreseen_is_named() -> None:
    assert "thinks on top" in str(of_run(JudgeConfig(provider="google")))
    silent = JudgeConfig(provider="google", reasoning_effort="none")
    assert "thinks on top" not in str(of_run(silent))
    assert "thinks on top" not in str(of_run(_OPENROUTER))


async def test_the_forecast_is_close_to_what_a_run_then_sends() -> None:
    config = JudgeConfig(model="lexical-judge")
    summaries = [" ".join(each.text.split()[:350]) for each in _DOCUMENTS]
    server = FaultyServer(completions_app(lexical_judge(), list))
    async with server as url, JudgeClient(Endpoint(url, "lexical-judge", "key"), config) as judge:
        for each, summary in zip(_DOCUMENTS, summaries, strict=True):
            await judge.score(each, summary)
        spend = judge.spend
    foreseen = forecast(config, "lexical-judge", _DOCUMENTS, summaries=4, ceiling=False)
    assert foreseen.calls == spend.calls == server.requests
    # The stand-in counts words for tokens, and a word of JSON is more than one.
    assert spend.prompt_tokens < foreseen.prompt_tokens < 2.5 * spend.prompt_tokens
