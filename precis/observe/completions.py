"""A completion and what became of it, as every observer is told of it."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from precis.benchmark.contender import ContenderSpec
from precis.records.summary import JudgedSummary, Summary
from precis.records.verdict import Ranked
from precis.sampling.rollouts import Rollout
from precis.task import Task

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
        scores: `accuracy` (or `reward` where it was ranked), a second judge's `second_accuracy`,
            and `words`; without those that there is no verdict for.
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


def completions_of_step(
    rollouts: Sequence[Sequence[Rollout]],
    *,
    run: str,
    policy: str,
    split: Split,
    step: int,
) -> Iterator[CompletionRecord]:
    """A step's summaries; those that were never written are no completions."""
    for row in rollouts:
        for rollout in row:
            if rollout.summary is None:
                continue
            index = str(rollout.index)
            yield _record(
                rollout,
                rollout.summary,
                # Two steps may be of one adapter, where sampling overlaps training.
                id=_id(run, policy, split, str(step), rollout.document.id, index),
                run=run,
                model=policy,
                messages=[one for one in rollout.conversation if isinstance(one, Mapping)],
                parameters={},
                notes={"split": split, "step": str(step), "index": index},
            )


def completion_of_contender(
    judged: JudgedSummary, entry: ContenderSpec, run: str, task: Task
) -> CompletionRecord | None:
    """A contender's summary; None where it has none, or had it from an earlier benchmark."""
    if judged.summary is None or judged.kept:
        return None
    contender = str(entry.contender)
    return _record(
        judged,
        judged.summary,
        id=_id(run, contender, judged.document.id),
        run=run,
        model=entry.endpoint.model,
        messages=task.messages(judged.document),
        parameters=entry.parameters,
        notes={"split": "benchmark", "contender": contender},
    )


def _record(
    judged: JudgedSummary,
    summary: Summary,
    *,
    id: str,
    run: str,
    model: str,
    messages: Sequence[Mapping[str, str]],
    parameters: Mapping[str, Any],
    notes: Mapping[str, str],
) -> CompletionRecord:
    return CompletionRecord(
        id=id,
        run=run,
        model=model,
        messages=messages,
        parameters=parameters,
        text=summary.text,
        finish=summary.finish,
        ended_at=summary.written_at or 0.0,
        seconds=summary.seconds or 0.0,
        prompt_tokens=summary.prompt_tokens or 0,
        completion_tokens=summary.completion_tokens or 0,
        usd=summary.usd,
        scores=_scores(judged),
        notes={**notes, **_notes(judged)},
    )


def _scores(judged: JudgedSummary) -> dict[str, float]:
    scores: dict[str, float] = {}
    reward = judged.verdict.reward
    if reward is not None:
        scores["reward" if isinstance(judged.verdict, Ranked) else "accuracy"] = reward
    second = judged.second.reward if judged.second else None
    if second is not None:
        scores["second_accuracy"] = second
    return {**scores, "words": judged.words}


def _notes(judged: JudgedSummary) -> dict[str, str]:
    notes = {"document": judged.document.id, "topic": judged.document.topic}
    if judged.verdict.cause:
        notes["unscored"] = judged.verdict.cause
    if judged.disqualified:
        notes["disqualified"] = judged.disqualified
    return notes


def _id(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]
