"""A completion and what became of it, as every observer is told of it."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from precis.benchmark.contender import ContenderSpec
from precis.records.rollout import Call, Rollout, Score, Split
from precis.records.summary import JudgedSummary, Summary
from precis.records.verdict import Ranked
from precis.task import Task


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
        scores: the rollout's reward and metrics; none where it has no score.
        notes: split, step, scenario, and why it has no score.
    """

    id: str
    run: str
    model: str
    messages: Sequence[Mapping[str, Any]]
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
    """Every call of a step's rollouts."""
    for group in rollouts:
        for rollout in group:
            notes = {"split": split, "step": str(step), **_notes_of(rollout)}
            for turn, call in enumerate(rollout.calls):
                # Two steps may be of one adapter, where sampling overlaps training.
                which = (str(step), rollout.scenario.id, str(rollout.index), str(turn))
                yield _of_call(
                    rollout,
                    call,
                    id=_id(run, policy, split, *which),
                    run=run,
                    model=policy,
                    notes={**notes, "turn": str(turn)},
                )


def _of_call(
    rollout: Rollout, call: Call, *, id: str, run: str, model: str, notes: Mapping[str, str]
) -> CompletionRecord:
    return CompletionRecord(
        id=id,
        run=run,
        model=model,
        messages=call.messages,
        parameters={"tools": list(call.tools)} if call.tools else {},
        text=call.text,
        finish=call.finish,
        ended_at=call.asked_at + call.seconds,
        seconds=call.seconds,
        prompt_tokens=call.usage.prompt_tokens,
        completion_tokens=call.usage.completion_tokens,
        usd=call.usd,
        scores=_scores_of(rollout),
        notes=notes,
    )


def _scores_of(rollout: Rollout) -> dict[str, float]:
    score = rollout.score
    if not isinstance(score, Score):
        return {}
    success = {} if score.success is None else {"success": float(score.success)}
    return {"reward": score.reward, **success, **score.metrics}


def _notes_of(rollout: Rollout) -> dict[str, str]:
    notes = {"scenario": rollout.scenario.id, "index": str(rollout.index)}
    if rollout.score.cause:
        notes["unscored"] = rollout.score.cause
    return notes


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
    reward = judged.reward
    if reward is not None:
        scores["reward" if isinstance(judged.verdict, Ranked) else "accuracy"] = reward
    second = judged.second.reward if judged.second else None
    if second is not None:
        scores["second_accuracy"] = second
    return {**scores, "words": judged.words}


def _notes(judged: JudgedSummary) -> dict[str, str]:
    notes = {"scenario": judged.document.id, "topic": judged.document.topic}
    if judged.verdict.cause:
        notes["unscored"] = judged.verdict.cause
    if judged.disqualified:
        notes["disqualified"] = judged.disqualified
    return notes


def _id(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]
