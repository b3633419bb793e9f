"""Training samples: the tokens of calls, joined if a prompt continues the previous call.

The engine reports its prompt and sampled tokens, so nothing is tokenized again and no chat template
is applied. If a call's prompt begins with all of an earlier call, it continues that call's sample;
if not (a template that drops reasoning, a sub-agent, a compaction, another set of tools), it starts
a new one.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from precis.errors import TrainerError
from precis.records.rollout import Call

if TYPE_CHECKING:
    import art
    from openai.types.chat.chat_completion import Choice

PREFIX_BREAKS = "data/step_prefix_breaks"
"""Metric of a training: calls after the first of their rollout that started a new sample."""


@dataclass(frozen=True)
class Sampled:
    """The tokens of one call."""

    prompt_ids: Sequence[int]
    token_ids: Sequence[int]
    logprobs: Sequence[float]


@dataclass
class TokenSequence:
    """One sample: prompts and answers in turn.

    Attributes:
        mask: 1 for a sampled token.
        logprobs: of each sampled token under its sampling policy; NaN elsewhere.
        prompt_length: tokens before the first sampled one.
    """

    token_ids: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    prompt_length: int = 0

    def continues_in(self, prompt_ids: Sequence[int]) -> bool:
        """Return whether a prompt begins with all of this sample."""
        return list(prompt_ids[: len(self.token_ids)]) == self.token_ids

    def add(self, call: Sampled | Call) -> None:
        """Append the rest of a call's prompt, and its answer."""
        read = call.prompt_ids[len(self.token_ids) :]
        if not self.token_ids:
            self.prompt_length = len(read)
        self.token_ids += [*read, *call.token_ids]
        self.mask += [0] * len(read) + [1] * len(call.token_ids)
        self.logprobs += [math.nan] * len(read) + list(call.logprobs)


def join_calls(calls: Iterable[Sampled | Call]) -> list[TokenSequence]:
    """Return the samples of a rollout's calls; each sampled token is in exactly one."""
    sequences: list[TokenSequence] = []
    for call in calls:
        if not call.token_ids:
            continue
        continued = [one for one in sequences if one.continues_in(call.prompt_ids)]
        if continued:
            sequence = max(continued, key=lambda one: len(one.token_ids))
        else:
            sequence = TokenSequence()
            sequences.append(sequence)
        sequence.add(call)
    return sequences


def count_prefix_breaks(groups: Iterable["art.TrajectoryGroup"]) -> int:
    """Count the calls after the first of their rollout that start a new sample."""
    breaks = 0
    for group in groups:
        for trajectory in group.trajectories:
            breaks += max(0, len(join_calls(sampled_in(trajectory))) - 1)
    return breaks


def with_tokens(choice: dict[str, Any], call: Sampled | Call) -> "Choice":
    """Return a choice with the tokens of its call.

    They are plain lists beside OpenAI's fields: OpenAI's object for each token's log probability
    takes a second for the 18,000 tokens of a step.
    """
    from openai.types.chat.chat_completion import Choice  # half a second to import

    tokens = {
        "prompt_token_ids": list(call.prompt_ids),
        "token_ids": list(call.token_ids),
        "token_logprobs": list(call.logprobs),
    }
    return Choice.model_validate({**choice, **tokens})


def sampled_in(trajectory: "art.Trajectory") -> Iterator[Sampled]:
    """Yield the tokens of each call of a trajectory, including those of its other histories. Raises
    TrainerError if a choice has none."""
    from openai.types.chat.chat_completion import Choice  # half a second to import

    histories: list[Any] = [trajectory, *trajectory.additional_histories]
    for history in histories:
        for item in history.messages_and_choices:
            if isinstance(item, Choice):
                yield tokens_of(item)


def tokens_of(choice: "Choice") -> Sampled:
    """Return the tokens of a choice. Raises TrainerError if it has none, or not a log probability
    for each."""
    carried = choice.model_extra or {}
    names = ("prompt_token_ids", "token_ids", "token_logprobs")
    if any(carried.get(name) is None for name in names):
        raise TrainerError(
            "A choice to train on carries no token ids.",
            "Ask the policy through the recorder, which keeps them.",
        )
    sampled = Sampled(*(carried[name] for name in names))
    if len(sampled.token_ids) != len(sampled.logprobs):
        raise TrainerError(
            f"A choice to train on has {len(sampled.token_ids)} tokens and "
            f"{len(sampled.logprobs)} log probabilities."
        )
    return sampled
