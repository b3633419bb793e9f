"""Rollouts worth reading: the best, the worst, and the most changed by training."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

from precis.records.rollout import Rollout, content_text


@dataclass(frozen=True)
class Validated:
    """The held-out rollouts of one adapter."""

    step: int
    rollouts: tuple[Rollout, ...]


@dataclass(frozen=True)
class LatestSamples:
    """The newest rollouts of a run, for its report.

    Attributes:
        rollouts: the last step's.
        first: the run's first validation.
        last: this process's last validation.
    """

    rollouts: tuple[Rollout, ...] = ()
    first: Validated | None = None
    last: Validated | None = None

    def add_validation(self, step: int, rollouts: Iterable[Rollout]) -> Self:
        """Return the samples with the validation of adapter `step` added."""
        new = Validated(step, tuple(rollouts))
        return replace(self, first=self.first or new, last=new)


def best_and_worst(rollouts: Sequence[Rollout]) -> tuple[Rollout, Rollout] | None:
    """Return the best and the worst rollout by score; None with fewer than two scored."""
    scored = []
    for one in rollouts:
        score = one.reward
        if score is not None:
            scored.append((score, one))
    if len(scored) < 2:
        return None
    scored.sort(key=lambda pair: pair[0])
    return scored[-1][1], scored[0][1]


def most_changed(seen: LatestSamples) -> tuple[Rollout, Rollout] | None:
    """Return the first and the last rollout of the held-out scenario whose two share the fewest
    words; None without two validations."""
    if seen.first is None or seen.last is None or seen.first.step == seen.last.step:
        return None
    before = {one.scenario.id: one for one in seen.first.rollouts if said(one)}
    least = 2.0
    change = None
    for new in seen.last.rollouts:
        old = before.get(new.scenario.id)
        if old is None or not said(new):
            continue
        common = common_words(said(old), said(new))
        if common < least:
            least = common
            change = (old, new)
    return change


def said(rollout: Rollout) -> str:
    """Return a policy's texts and tool calls in the conversation of its last call."""
    if not rollout.calls:
        return ""
    words = []
    last = rollout.calls[-1]
    for message in (*last.messages, last.message):
        if message["role"] == "assistant":
            words.append(content_text(message.get("content")))
            calls = message.get("tool_calls") or ()
            words += [str(call.get("function") or call.get("custom")) for call in calls]
    return "\n".join(words).strip()


def common_words(first: str, second: str) -> float:
    """Return the share of words that two texts have in common, 0 to 1, in any order."""
    one = Counter(first.lower().split())
    other = Counter(second.lower().split())
    both = one.total() + other.total()
    return 2 * (one & other).total() / both if both else 1.0
