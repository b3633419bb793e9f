"""Conversations whose answers a policy imitates before it learns from rewards."""

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, TypeVar

from pydantic import Field

from precis.record import Finite, Record

T = TypeVar("T")


class ShownConversation(Record):
    """A conversation in the format of OpenAI's API, whose assistant's answers are imitated.

    An answer with `"weight": 0`, as in OpenAI's files for fine-tuning, is only context.
    """

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


def is_imitated(message: Mapping[str, Any]) -> bool:
    """Return whether a message is an answer to imitate."""
    return message["role"] == "assistant" and message.get("weight") != 0


def batches(demonstrations: Sequence[Sequence[T]], size: int, seed: int | str) -> Iterator[list[T]]:
    """Yield the samples of so many demonstrations at a time, without end if there are any; each
    demonstration is in one batch of each pass, and each pass has another order."""
    for number in itertools.count() if demonstrations else ():
        order = list(demonstrations)
        random.Random(f"{seed}/{number}").shuffle(order)
        for start in range(0, len(order), size):
            yield list(chain.from_iterable(order[start : start + size]))
