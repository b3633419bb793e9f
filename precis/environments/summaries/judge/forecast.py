"""The forecast of a run's use of the judge: calls, tokens, dollars, minutes, quota.

The requests are built from the corpus and measured, with a margin. Cached replies and answers that
need no grader make a run cheaper than its forecast, retries and hedges more expensive.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from precis.config import JudgeConfig
from precis.environments.summaries.judge.protocol import batches, grade_prompt, reading_prompt
from precis.records.documents import Document
from precis.records.spend import Estimate, Usage, prices_of, usd
from precis.text import WORDS_MAX, write_dollars

_MEASURED_MAX = 200
_CALL_S = 1.0


def forecast(
    config: JudgeConfig,
    model: str,
    documents: Sequence[Document],
    *,
    summaries: int,
    summary_words: int = WORDS_MAX,
    ceiling: bool = True,
    role: str = "The judge",
) -> Estimate:
    """Estimate the cost of judging this many summaries of some documents, at least one, and with
    `ceiling` the documents themselves too, once each."""
    sample = documents[:: max(1, len(documents) // _MEASURED_MAX)]
    costs = []
    for one in sample:
        head = " ".join(one.text.split()[:summary_words])
        costs.append(_cost(one, head, config))
    total = summaries * np.mean(costs, axis=0)
    if ceiling:
        wholes = [_cost(one, one.text, config) for one in sample]
        total += len(documents) * np.mean(wholes, axis=0)
    calls, prompt_tokens, completion_tokens = map(round, total.tolist())
    return forecast_of(config, model, calls, Usage(prompt_tokens, completion_tokens), role)


def forecast_of(
    config: JudgeConfig, model: str, calls: int, usage: Usage, role: str = "The judge"
) -> Estimate:
    """Return the forecast of this many calls of a hosted judge, with this many tokens."""
    limits = config.limits
    minutes = max(
        calls * _CALL_S / limits.in_flight / 60,
        calls / limits.requests_per_minute,
        usage.tokens / limits.tokens_per_minute,
    )
    # OpenRouter leaves Gemini's reasoning off by default; Google's own endpoint turns it on.
    no_thought = ("", "none") if config.provider == "openrouter" else ("none",)
    thinks = config.reasoning_effort not in no_thought
    thinking = ", and what the model thinks on top" if thinks else ""
    dollars = usd(model, usage, prices_of(config))
    cost = "at an unknown price" if dollars is None else f"about {write_dollars(dollars)}"
    sentence = (
        f"{role} will be called about {calls:,} times: {usage.tokens:,} tokens{thinking}, {cost}, "
        f"at least {max(1, math.floor(minutes)):,} min at its limits."
    )
    warnings = []
    if dollars is None:
        warnings.append(
            f"No price is known for {model}: only its replies may give it. Give one in its prices."
        )
    days = math.ceil(calls / limits.requests_per_day) if limits.requests_per_day else 1
    if days > 1:
        warnings.append(
            f"{role}'s quota of {limits.requests_per_day:,} requests a day does not suffice: the "
            f"run needs {days} days of it. Raise the quota, or lower steps, rollouts_per_group or "
            "val_size."
        )
    return Estimate(sentence, dollars, tuple(warnings))


def _cost(document: Document, text: str, config: JudgeConfig) -> npt.NDArray[np.float64]:
    """Return the number of calls to judge a text, and their prompt and completion tokens."""
    whole = document.text if config.protocol == "per_question" else None
    cost = np.zeros(3)
    for questions in batches(document.questions, config.protocol):
        asked = [reading_prompt(text, questions, config.protocol).expected]
        # Declined and golden answers need no grade: this is the most expensive case, in which every
        # answer is in other words.
        graded = [(one, one.answer) for one in questions if one.answerable]
        if graded:
            asked.append(grade_prompt(graded, whole).expected)
        for usage in asked:
            cost += (1, usage.prompt_tokens, usage.completion_tokens)
    return cost
