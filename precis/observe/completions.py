"""A completion and what became of it, as every observer is told of it."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from precis.benchmark.contender import ContenderSpec
from precis.benchmark.measure import Outcome
from precis.judge import Ranked, Scored, Unscored
from precis.records.documents import Document
from precis.sampling.rollouts import Rollout
from precis.summaries.prompt import summary_messages
from precis.text import count_words

Split = Literal["train", "val", "benchmark"]


@dataclass(frozen=True)
class CompletionRecord:
    """One completion.

    Attributes:
        id: 32 hex digits that follow from what it is: told twice, it is still the same one.
        run: the run or benchmark that asked for it.
        model: what was asked, such as `rehearsal@7`.
        parameters: what was sent besides model and messages.
        ended_at: seconds since the epoch.
        usd: None where the price is not known.
        scores: `accuracy` (or `reward` where it was ranked) and `words`; without either of the
            first two where there is no verdict.
        notes: split, step, document, topic, and why it has no verdict or scored zero unread.
    """

    id: str
    run: str
    model: str
    messages: Sequence[Mapping[str, str]]
    parameters: Mapping[str, Any]
    text: str
    finish: str
    ended_at: float
    seconds: float
    prompt_tokens: int
    completion_tokens: int
    usd: float | None
    scores: Mapping[str, float]
    notes: Mapping[str, str]

    @property
    def began(self) -> datetime:
        return datetime.fromtimestamp(self.ended_at - self.seconds, UTC)

    @property
    def ended(self) -> datetime:
        return datetime.fromtimestamp(self.ended_at, UTC)


def seen_of_rollouts(
    rollouts: Sequence[Sequence[Rollout]],
    *,
    run: str,
    policy: str,
    split: Split,
    step: int,
    words_max: int,
) -> Iterator[CompletionRecord]:
    """A step's summaries; those that were never written are no completions."""
    for rollout in (one for row in rollouts for one in row):
        summary = rollout.summary
        if summary is None:
            continue
        notes = {"split": split, "step": str(step), "index": str(rollout.index)}
        yield CompletionRecord(
            id=_id(run, policy, split, rollout.document.id, str(rollout.index)),
            run=run,
            model=policy,
            messages=summary_messages(rollout.document.text, words_max),
            parameters={},
            text=summary.text,
            finish=summary.choice.finish_reason,
            ended_at=summary.ended_at,
            seconds=summary.seconds,
            prompt_tokens=summary.prompt_tokens,
            completion_tokens=summary.completion_tokens,
            usd=None,
            scores=_scores(rollout.verdict, rollout.words),
            notes={**notes, **_notes(rollout.document, rollout.verdict, rollout.disqualified)},
        )


def seen_of_outcome(
    outcome: Outcome, entry: ContenderSpec, run: str, words_max: int
) -> CompletionRecord | None:
    """A contender's summary; None where it has none, or had it from an earlier benchmark."""
    written = outcome.written
    if written is None or outcome.kept:
        return None
    words = count_words(written.text)
    return CompletionRecord(
        id=_id(run, str(entry.contender), outcome.document.id),
        run=run,
        model=entry.endpoint.model,
        messages=summary_messages(outcome.document.text, words_max),
        parameters=entry.parameters,
        text=written.text,
        finish=written.finish,
        ended_at=written.written_at,
        seconds=written.seconds,
        prompt_tokens=written.prompt_tokens,
        completion_tokens=written.completion_tokens,
        usd=written.usd,
        scores=_scores(outcome.verdict, words),
        notes={
            "split": "benchmark",
            "contender": str(entry.contender),
            **_notes(outcome.document, outcome.verdict, outcome.disqualified),
        },
    )


def _scores(verdict: Scored | Ranked | Unscored, words: int) -> dict[str, float]:
    if isinstance(verdict, Scored):
        return {"accuracy": verdict.accuracy, "words": words}
    return (
        {"reward": verdict.score, "words": words}
        if isinstance(verdict, Ranked)
        else {"words": words}
    )


def _notes(
    document: Document, verdict: Scored | Ranked | Unscored, disqualified: str | None
) -> dict[str, str]:
    notes = {"document": document.id, "topic": document.topic}
    if isinstance(verdict, Unscored):
        notes["unscored"] = verdict.cause
    return {**notes, "disqualified": disqualified} if disqualified else notes


def _id(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]
