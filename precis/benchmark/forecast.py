"""What a benchmark will ask for and pay, told before it does."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from precis.benchmark.client import ContenderClient
from precis.benchmark.contender import ContenderSpec
from precis.benchmark.referee import BenchmarkJudge
from precis.config import JudgeConfig
from precis.environments.summaries.judge.forecast import Forecast, forecast
from precis.llm.tokens import estimate_tokens
from precis.records.documents import Document
from precis.records.spend import Usage
from precis.task import Task

_WORDS_PER_TOKEN = 0.75
"""Of English prose; the usual rule for the tokenizers of hosted models."""


@dataclass(frozen=True)
class CostEstimate:
    """An estimate of what a benchmark will take, beyond what is kept already.

    Attributes:
        summaries: those that have to be paid for.
        kept: summaries that an earlier benchmark has paid for.
        usd: of these summaries, without what reasoning models think.
        thinking_usd: what that may add, if they use up all the tokens they may think with.
        unpriced: contenders whose price is not known, and which `usd` therefore misses.
        judging: of the verdicts that are not kept; None where none is missing.
    """

    summaries: int
    kept: int
    usd: float
    thinking_usd: float
    unpriced: tuple[str, ...]
    judging: Forecast | None

    @property
    def least_usd(self) -> float:
        """Summaries and verdicts together, as far as their prices are known."""
        return self.usd + ((self.judging.usd or 0.0) if self.judging else 0.0)

    def __str__(self) -> str:
        thinking = f", and up to ${self.thinking_usd:,.2f} of thought" if self.thinking_usd else ""
        unknown = f" The price of {', '.join(self.unpriced)} is not known." if self.unpriced else ""
        written = (
            f"{self.summaries:,} summaries are to be paid for, about ${self.usd:,.2f}{thinking}; "
            f"{self.kept:,} are kept.{unknown}"
        )
        return f"{written} {self.judging}" if self.judging else written


async def estimate_cost(
    writers: Sequence[ContenderClient],
    referee: BenchmarkJudge,
    documents: Sequence[Document],
    judge: JudgeConfig,
    judge_model: str,
    task: Task,
) -> CostEstimate:
    """See what is kept, and what the rest will cost."""
    items = []
    for writer in writers:
        for document in documents:
            items.append((writer, document))
    known = await asyncio.gather(
        *(_find_kept(writer, referee, document) for writer, document in items)
    )
    missing: list[tuple[ContenderSpec, Document]] = []
    for (writer, document), kept in zip(items, known, strict=True):
        if writer.entry.paid and not kept.summary:
            missing.append((writer.entry, document))
    verdicts = sum(not kept.verdict for kept in known)
    judging = None
    if verdicts and judge.provider != "lexical":
        judging = forecast(
            judge,
            judge_model,
            documents,
            summaries=verdicts,
            summary_words=task.words_max,
            ceiling=False,
        )
    unpriced = {str(entry.contender) for entry, _ in missing if entry.price is None}
    return CostEstimate(
        summaries=len(missing),
        kept=sum(kept.summary for kept in known),
        usd=sum(summary_usd(entry, document, task) for entry, document in missing),
        thinking_usd=sum(thinking_usd(entry) for entry, _ in missing),
        unpriced=tuple(sorted(unpriced)),
        judging=judging,
    )


@dataclass(frozen=True)
class _Kept:
    """Whether a contender's summary of a document is kept, and whether the verdict on it is."""

    summary: bool
    verdict: bool


async def _find_kept(writer: ContenderClient, referee: BenchmarkJudge, document: Document) -> _Kept:
    summary = await writer.find_kept(document)
    if summary is None:
        return _Kept(False, False)
    verdict = await referee.find_kept(document, summary.text)
    return _Kept(True, verdict is not None)


def summary_usd(entry: ContenderSpec, document: Document, task: Task) -> float:
    """What a summary will cost, without what a reasoning model thinks."""
    messages = task.messages(document)
    sent = sum(len(message["content"]) for message in messages)
    prompt_tokens = round(estimate_tokens(sent))
    return _price(entry, Usage(prompt_tokens, int(task.words_max / _WORDS_PER_TOKEN)))


def thinking_usd(entry: ContenderSpec) -> float:
    """What a summary may cost on top, if the model uses up all that it may think with."""
    settings = entry.settings
    if not settings.reasoning:
        return 0.0
    return _price(entry, Usage(0, settings.thinking_tokens_max))


def _price(entry: ContenderSpec, usage: Usage) -> float:
    return entry.price.of(usage) if entry.price else 0.0
