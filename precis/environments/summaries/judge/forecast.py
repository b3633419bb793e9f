"""The forecast of a run's use of the judge: calls, tokens, dollars, minutes, quota.

The requests are built from the corpus itself and measured, so a corpus of long questions or of
another script is not mistaken for an average one. Cached replies and answers that need no grader
make a run cheaper than its forecast, retries and hedges dearer; thinking tokens can't be foreseen,
and `thinks` says so.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from precis.config import JudgeConfig
from precis.environments.summaries.judge.prompts import UNANSWERABLE
from precis.environments.summaries.judge.protocol import (
    Graded,
    Prompt,
    batches,
    grade_prompt,
    reading_prompt,
)
from precis.llm.forecast import Forecast
from precis.llm.tokens import estimate_tokens
from precis.records.documents import Document
from precis.records.spend import Prices, Usage, prices_of, usd
from precis.words import WORDS_MAX

_MEASURED_MAX = 200


@dataclass(frozen=True)
class _Cost:
    """Calls and tokens for judging one text, or the mean of several."""

    calls: float
    prompt_tokens: float
    completion_tokens: float


def forecast(
    config: JudgeConfig,
    model: str,
    documents: Sequence[Document],
    *,
    summaries: int,
    summary_words: int = WORDS_MAX,
    ceiling: bool = True,
    call_s: float = 1.0,
    prices: Prices | None = None,
    role: str = "The judge",
) -> Forecast:
    """Estimate what judging a run takes.

    Args:
        model: the judge's model, as its endpoint names it.
        documents: those that will be summarized; at least one.
        summaries: how many will be judged: steps times groups times rollouts, and those of
            validation and benchmark.
        summary_words: how long they are.
        ceiling: whether the documents themselves are judged too, once each.
        call_s: how long one call takes, in seconds.
        prices: USD by model; None takes the built-in table and `config.prices`.
        role: who is asked, to begin a sentence with.
    """
    sample = documents[:: max(1, len(documents) // _MEASURED_MAX)]
    of_summaries = []
    for document in sample:
        of_summaries.append(_cost(config, document, _head(document.text, summary_words)))
    total = _times(_mean(of_summaries), summaries)
    if ceiling:
        of_documents = [_cost(config, document, document.text) for document in sample]
        total = _sum(total, _times(_mean(of_documents), len(documents)))
    calls = round(total.calls)
    usage = Usage(round(total.prompt_tokens), round(total.completion_tokens))
    return Forecast(
        calls=calls,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        usd=usd(model, usage, prices_of(config) if prices is None else prices),
        minutes=_minutes(config, calls, usage, call_s),
        requests_per_day=config.limits.requests_per_day,
        thinks=_thinks(config),
        role=role,
        model=model,
    )


def _minutes(config: JudgeConfig, calls: int, usage: Usage, call_s: float) -> float:
    limits = config.limits
    at_once = calls * call_s / limits.in_flight / 60
    if config.provider == "lexical":
        return at_once
    tokens = usage.prompt_tokens + usage.completion_tokens
    return max(at_once, calls / limits.requests_per_minute, tokens / limits.tokens_per_minute)


def _thinks(config: JudgeConfig) -> bool:
    """OpenRouter leaves Gemini's thinking off unless asked; Google's own endpoint turns it on."""
    if config.provider in ("lexical", "openrouter"):
        return config.reasoning_effort not in ("", "none") and config.provider != "lexical"
    return config.reasoning_effort != "none"


def _cost(config: JudgeConfig, document: Document, text: str) -> _Cost:
    cost = _Cost(0, 0, 0)
    for questions in batches(document.questions, config.protocol):
        prompt = reading_prompt(text, questions, config.protocol)
        answers = []
        for question in questions:
            answer = question.answer if question.answerable else UNANSWERABLE
            answers.append({"id": "q1", "answer": answer})
        cost = _sum(cost, _request(prompt, {"answers": answers, "is_prose": True}))
        # What is not said, or said as in the golden answer, needs no grade: this is the dearest
        # case, in which all is said in other words.
        graded = [Graded(one, one.answer) for one in questions if one.answerable]
        if graded:
            whole = document.text if config.protocol == "per_question" else None
            cost = _sum(
                cost,
                _request(
                    grade_prompt(graded, whole),
                    {"grades": [{"id": "q1", "correct": True}] * len(graded)},
                ),
            )
    return cost


def _request(prompt: Prompt, reply: object) -> _Cost:
    sent = sum(len(message["content"]) for message in prompt.messages)
    answered = len(json.dumps(reply))
    return _Cost(1, estimate_tokens(sent), estimate_tokens(answered))


def _head(text: str, words: int) -> str:
    return " ".join(text.split()[:words])


def _sum(first: _Cost, second: _Cost) -> _Cost:
    return _Cost(
        first.calls + second.calls,
        first.prompt_tokens + second.prompt_tokens,
        first.completion_tokens + second.completion_tokens,
    )


def _times(cost: _Cost, factor: float) -> _Cost:
    return _Cost(cost.calls * factor, cost.prompt_tokens * factor, cost.completion_tokens * factor)


def _mean(costs: Sequence[_Cost]) -> _Cost:
    total = _Cost(0, 0, 0)
    for cost in costs:
        total = _sum(total, cost)
    return _times(total, 1 / len(costs))
