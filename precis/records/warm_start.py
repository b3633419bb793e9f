"""The records of a warm start: the conversations that it imitates, and its effect on the groups."""

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeVar

from pydantic import Field

from precis.record import Amount, Count, Finite, Record, Step

T = TypeVar("T")


class ShownConversation(Record):
    """A conversation in the format of OpenAI's API, whose assistant's answers are imitated. An
    answer with `"weight": 0`, as in OpenAI's files for fine-tuning, is only context."""

    messages: tuple[dict[str, Any], ...]
    tools: tuple[dict[str, Any], ...] = ()
    token_ids: dict[int, tuple[int, ...]] = Field({})
    """Tokens of the answers sampled by the policy itself, by message index."""


class Demonstration(Record):
    """A rollout to imitate, or the cause why a scenario has none."""

    scenario_id: str
    conversations: tuple[ShownConversation, ...] = ()
    """One; more if an agent had sub-agents, or started a new conversation."""
    reward: Finite | None = None
    metrics: dict[str, Finite] = Field({})
    """The environment's own figures."""
    cause: str = ""


class WarmStartRecord(Record):
    """The supervised training that made an adapter."""

    source: str
    """The source of the demonstrations: `best_of_n`, `teacher` or `file`."""
    scenarios: Count
    """Training scenarios set apart for it."""
    demonstrations: Count
    """Imitated rollouts."""
    left_out: dict[str, Count]
    """Demonstrations, or scenarios without one, left out, by cause."""
    reward: Finite | None
    """Mean reward of the imitated rollouts; None if none has a score."""
    usd: Amount = 0.0
    """The cost of collecting them (judge or teacher), as far as prices are known."""


class GroupVariance(Record):
    """The number of an adapter's groups with differing rewards: it can learn only from those."""

    step: Step
    """The adapter."""
    groups: Count
    """Sampled scenarios, each as often as in a step."""
    varied: Count
    """Groups with differing rewards."""
    dropped: dict[str, Count]
    """The other groups, by cause."""
    reward: Finite
    """Mean reward of the scored rollouts."""
    reward_std: Finite
    """Mean within-group standard deviation of the reward."""
    seconds: Amount
    """Its wall time."""


def is_imitated(message: Mapping[str, Any]) -> bool:
    return message["role"] == "assistant" and message.get("weight") != 0


def batches(demonstrations: Sequence[Sequence[T]], size: int, seed: int | str) -> Iterator[list[T]]:
    """Yield the samples of so many demonstrations at a time, without end if there are any; each
    demonstration is in one batch of each pass, and each pass has another order."""
    for number in itertools.count() if demonstrations else ():
        order = list(demonstrations)
        random.Random(f"{seed}/{number}").shuffle(order)
        for start in range(0, len(order), size):
            yield list(chain.from_iterable(order[start : start + size]))
