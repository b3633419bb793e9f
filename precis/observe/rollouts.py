"""A rollout as every observer receives it: all its calls, with the score at the end."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from precis.records.rollout import Call, Json, Rollout, Score, Split


@dataclass(frozen=True)
class RolloutRecord:
    """One rollout with at least one call.

    Attributes:
        id: 32 hex digits that follow from what it is: told twice, it is still the same one.
        run: the run or benchmark that asked for it.
        model: what was asked, such as `rehearsal@7`.
        parameters: what was sent besides model, messages and tools.
        scores: the rollout's reward and metrics; none where it has no score.
        notes: split, step, scenario, and why it has no score.
    """

    id: str
    run: str
    model: str
    parameters: Mapping[str, Any]
    calls: Sequence[Call]
    scores: Mapping[str, float]
    notes: Mapping[str, str]

    def call_id(self, turn: int) -> str:
        """Return the id of one of its calls, 32 hex digits."""
        return _id(self.id, str(turn))

    @property
    def began_at(self) -> float:
        """Seconds since the epoch."""
        return min(call.asked_at for call in self.calls)

    @property
    def ended_at(self) -> float:
        """Seconds since the epoch."""
        return max(call.asked_at + call.seconds for call in self.calls)

    @property
    def conversation(self) -> list[Json]:
        """The messages of the last call with its answer; a sub-agent's are in its own calls."""
        last = self.calls[-1]
        return [*last.messages, last.message]

    def sent(self, call: Call) -> dict[str, Any]:
        """Return one of its requests, as it was sent."""
        tools = {"tools": list(call.tools)} if call.tools else {}
        messages = list(call.messages)
        return {"model": self.model, "messages": messages, **tools, **self.parameters}


def rollouts_of_step(
    rollouts: Sequence[Sequence[Rollout]],
    *,
    run: str,
    policy: str,
    split: Split,
    step: int,
) -> Iterator[RolloutRecord]:
    """A step's rollouts, but those that made no call."""
    for group in rollouts:
        for rollout in group:
            # Two steps may be of one adapter, where sampling overlaps training.
            which = (split, str(step), rollout.scenario.id, str(rollout.index))
            notes = {"split": split, "step": str(step), **_notes_of(rollout)}
            if rollout.calls:
                yield RolloutRecord(
                    _id(run, policy, *which),
                    run,
                    policy,
                    {},
                    rollout.calls,
                    _scores_of(rollout),
                    notes,
                )


def rollouts_of_contender(
    rollout: Rollout, *, run: str, contender: str, model: str, parameters: Mapping[str, Any]
) -> Iterator[RolloutRecord]:
    """A contender's rollout; none where it made no call.

    Args:
        model: the name that it was asked by.
        parameters: what it was sent beside the conversation.
    """
    notes = {"split": "benchmark", "contender": contender, **_notes_of(rollout)}
    if rollout.calls:
        which = (run, contender, rollout.scenario.id, str(rollout.index))
        yield RolloutRecord(
            _id(*which), run, model, parameters, rollout.calls, _scores_of(rollout), notes
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


def _id(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]
