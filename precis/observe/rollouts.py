"""The record of a rollout for observers: all its calls, and the score."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from precis.records.rollout import Call, Json, Rollout, Score


@dataclass(frozen=True)
class RolloutRecord:
    """One rollout with at least one call.

    Attributes:
        id: 32 hex digits derived from run, model, origin, scenario and index, the same in a
            repeated report.
        run: its run or benchmark.
        model: the model's name, such as `rehearsal@7`.
        parameters: fields of the requests besides model, messages and tools.
        scores: the rollout's reward and metrics; none if unscored.
        notes: split, step, scenario, and the cause if unscored.
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
        tools = {"tools": list(call.tools)} if call.tools else {}
        messages = list(call.messages)
        return {"model": self.model, "messages": messages, **tools, **self.parameters}


def records_of(
    rollouts: Iterable[Rollout],
    run: str,
    model: str,
    origin: Mapping[str, str],
    parameters: Mapping[str, Any] | None = None,
) -> Iterator[RolloutRecord]:
    """Yield the records of the rollouts with at least one call.

    Args:
        origin: split and step, or the benchmark's contender: two steps may share an adapter if
            sampling overlaps training.
    """
    for one in rollouts:
        if not one.calls:
            continue
        index = str(one.index)
        notes = {**origin, "scenario": one.scenario.id, "index": index}
        scores: dict[str, float] = {}
        if isinstance(one.score, Score):
            success = {} if one.score.success is None else {"success": float(one.score.success)}
            scores = {**one.score.metrics, "reward": one.score.reward, **success}
        else:
            notes["unscored"] = one.score.cause
        which = _id(run, model, *origin.values(), one.scenario.id, index)
        yield RolloutRecord(which, run, model, parameters or {}, one.calls, scores, notes)


def _id(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]
