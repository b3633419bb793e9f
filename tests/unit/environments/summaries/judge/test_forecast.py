"""The forecast of what a run asks of its judge."""

from precis.config import JudgeConfig, RateLimits
from precis.environments.summaries.judge.forecast import forecast
from precis.records.documents import Document, Question
from precis.records.spend import Estimate

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


def of_run(config: JudgeConfig = _OPENROUTER) -> Estimate:
    return forecast(config, _MODEL, _DOCUMENTS, summaries=1000)


def test_a_daily_quota_that_does_not_suffice_is_told_with_what_to_do() -> None:
    short = of_run(JudgeConfig(provider="google", limits=RateLimits(requests_per_day=250)))
    assert short.figures["days"] == 9
    assert "needs 9 days of it" in str(short) and "lower steps" in str(short)
    enough = of_run(JudgeConfig(provider="google", limits=RateLimits(requests_per_day=5000)))
    assert enough.figures["days"] == 1 and "quota" not in str(enough)
