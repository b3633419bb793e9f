"""A completion and what became of it, as every observer is told of it."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from precis.records.rollout import Call, Rollout, Score, Split


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


def completions_of_contender(
    rollout: Rollout, *, run: str, contender: str, model: str, parameters: Mapping[str, Any]
) -> Iterator[CompletionRecord]:
    """Every call of a contender's rollout.

    Args:
        model: the name that it was asked by.
        parameters: what it was sent beside the conversation.
    """
    notes = {"split": "benchmark", "contender": contender, **_notes_of(rollout)}
    for turn, call in enumerate(rollout.calls):
        record = _of_call(
            rollout,
            call,
            id=_id(run, contender, rollout.scenario.id, str(turn)),
            run=run,
            model=model,
            notes={**notes, "turn": str(turn)},
        )
        yield replace(record, parameters={**record.parameters, **parameters})


def _id(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]
