"""The forecast of the cost of making questions."""

from collections.abc import Sequence

from precis.config import JudgeConfig
from precis.environments.summaries.judge.forecast import forecast
from precis.inference.texts import Text
from precis.questions.make import document_of
from precis.questions.prompts import ANSWERED, UNANSWERED, WrittenQuestion
from precis.questions.writer import estimate_usage
from precis.records.spend import Prices, Usage, usd

_TYPICAL = WrittenQuestion("q" * 90, "a" * 60, "p" * 150, answerable=True)
"""A question as long as those of RepLiQA, with its answer and its passage."""


def forecast_writer(model: str, texts: Sequence[Text], prices: Prices) -> str:
    """Say what the model that writes will take for these texts, in a sentence."""
    usages = [estimate_usage(text.text) for text in texts]
    total = Usage(
        sum(usage.prompt_tokens for usage in usages),
        sum(usage.completion_tokens for usage in usages),
    )
    cost = usd(model, total, prices)
    dollars = "at an unknown price" if cost is None else f"about ${cost:,.2f}"
    return (
        f"{model} will write questions for {len(texts):,} documents: about {total.tokens:,} "
        f"tokens, {dollars}."
    )


def forecast_judge(config: JudgeConfig, model: str, texts: Sequence[Text]) -> str:
    """Say what trying the questions will take, from each document and without it, in a sentence."""
    questions = [_TYPICAL] * (ANSWERED + UNANSWERED)
    documents = [document_of(text, questions) for text in texts]
    return str(forecast(config, model, documents, summaries=len(documents), summary_words=0))
