"""Samples packed into sequences, and sequences into updates of the optimizer.

How often the optimizer moves in a step follows from how many samples the step has, never from how
long they are: ART's own packing makes an update of each sequence, so that one long sample changes
the number of updates, and with it the effective learning rate, up to fourfold.

Samples of one prompt in the same sequence share it: the prompt is computed once, each
answer sees the prompt and itself, at the positions that it had when it was sampled.
"""

import random
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal

import numpy as np
import numpy.typing as npt

from precis.errors import TrainerError

Weighting = Literal["token", "sequence"]
"""The unit that counts the same in the loss: each token that was sampled, or each rollout."""


@dataclass(frozen=True)
class TrainingSample:
    """Prompt and answer as tokens, or the prompts and answers of several turns.

    Attributes:
        token_ids: of all of it.
        assistant_mask: 1 where a token was sampled.
        logprobs: of each sampled token under the policy that sampled it; NaN elsewhere.
        advantage: how much better than its group's mean it did.
        prompt_id: equal for samples of one prompt.
        prompt_length: how many tokens it has in common with the others of that prompt.
        rollout_tokens: sampled tokens of its whole rollout, which may have made more samples.
    """

    token_ids: list[int]
    assistant_mask: list[int]
    logprobs: list[float]
    advantage: float
    prompt_id: Hashable
    prompt_length: int
    rollout_tokens: int


@dataclass(frozen=True)
class PackedSequence:
    """Tokens that go through the model together; all arrays are of one length.

    Attributes:
        tokens: ids.
        positions: of each token in its own prompt and answer.
        parents: the prompt that a token belongs to.
        groups: the prompt or the answer that a token belongs to. A token sees those before it
            of its own group and of its parent.
        trained: whether the token was sampled.
        logprobs: under the policy that sampled it; NaN elsewhere.
        advantages: of the answer; the same for all of its tokens.
        weights: of each sampled token in the loss; they add up to 1 over an update.
    """

    tokens: npt.NDArray[np.int64]
    positions: npt.NDArray[np.int64]
    parents: npt.NDArray[np.int64]
    groups: npt.NDArray[np.int64]
    trained: npt.NDArray[np.bool_]
    logprobs: npt.NDArray[np.float32]
    advantages: npt.NDArray[np.float32]
    weights: npt.NDArray[np.float32]


Update = list[PackedSequence]
"""The sequences whose gradients are added up before the optimizer moves once."""


def pack(
    samples: Sequence[TrainingSample],
    *,
    updates: int,
    tokens_max: int,
    weighting: Weighting,
    seed: str,
) -> list[Update]:
    """Divide a step's samples among its updates, and pack each update's into sequences.

    Args:
        samples: those of one prompt next to each other.
        updates: how often the optimizer is to move; fewer where there are fewer samples.
        tokens_max: the longest sequence.
        seed: of the order in which prompts, and the samples of each, are learned from.

    Returns:
        Advantages are scaled so that their mean size over all sampled tokens of the step is 1,
        as ART does: the learning rate then means the same whatever the spread of the rewards.

    Raises:
        TrainerError: a sample is longer than `tokens_max`.
    """
    # Prompts in a random order, and the samples of each; those of one prompt stay together.
    by_prompt: dict[Hashable, list[TrainingSample]] = {}
    for sample in samples:
        by_prompt.setdefault(sample.prompt_id, []).append(sample)
    chance = random.Random(seed)
    prompts = list(by_prompt.values())
    chance.shuffle(prompts)
    for prompt in prompts:
        chance.shuffle(prompt)
    ordered = list(chain.from_iterable(prompts))
    scale = _advantage_scale(ordered, weighting)
    parts = np.array_split(np.arange(len(ordered)), min(updates, len(ordered)))
    packed = []
    for part in parts:
        chosen = [ordered[index] for index in part]
        packed.append(_pack_update(chosen, tokens_max, weighting, scale))
    return packed


def _advantage_scale(samples: Sequence[TrainingSample], weighting: Weighting) -> float:
    total = sum(_weight(sample, weighting) * sum(sample.assistant_mask) for sample in samples)
    size = sum(
        abs(sample.advantage) * _weight(sample, weighting) * sum(sample.assistant_mask)
        for sample in samples
    )
    return total / size if size else 1.0


def _weight(sample: TrainingSample, weighting: Weighting) -> float:
    """Return the weight of each sampled token of a sample, before the weights are made to add up to
    1."""
    return 1.0 if weighting == "token" else 1.0 / max(1, sample.rollout_tokens)


def _pack_update(
    samples: Sequence[TrainingSample], tokens_max: int, weighting: Weighting, scale: float
) -> Update:
    total = sum(_weight(sample, weighting) * sum(sample.assistant_mask) for sample in samples)
    drafts = [_Draft()]
    for group, sample in enumerate(samples, start=len(samples)):
        if len(sample.token_ids) > tokens_max:
            raise TrainerError(
                f"A sample of {len(sample.token_ids)} tokens does not fit into a training sequence "
                f"of {tokens_max}: raise trainer.engine.packed_tokens."
            )
        if len(drafts[-1].tokens) + drafts[-1].needs(sample) > tokens_max:
            drafts.append(_Draft())
        weight = _weight(sample, weighting) / total
        drafts[-1].add(sample, group, sample.advantage * scale, weight)
    return [draft.finish() for draft in drafts]


@dataclass
class _Draft:
    """A sequence that is being filled."""

    tokens: list[int] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)
    trained: list[bool] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    advantages: list[float] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    prompts: dict[Hashable, int] = field(default_factory=dict)

    def needs(self, sample: TrainingSample) -> int:
        """Count the tokens that the sample adds."""
        shared = sample.prompt_length if sample.prompt_id in self.prompts else 0
        return len(sample.token_ids) - shared

    def add(self, sample: TrainingSample, group: int, advantage: float, weight: float) -> None:
        start = sample.prompt_length if sample.prompt_id in self.prompts else 0
        parent = self.prompts.setdefault(sample.prompt_id, len(self.prompts))
        for position in range(start, len(sample.token_ids)):
            in_prompt = position < sample.prompt_length
            trained = bool(sample.assistant_mask[position])
            self.tokens.append(sample.token_ids[position])
            self.positions.append(position)
            self.parents.append(parent)
            self.groups.append(parent if in_prompt else group)
            self.trained.append(trained)
            self.logprobs.append(sample.logprobs[position])
            self.advantages.append(advantage if trained else 0.0)
            self.weights.append(weight if trained else 0.0)

    def finish(self) -> PackedSequence:
        return PackedSequence(
            tokens=np.array(self.tokens, dtype=np.int64),
            positions=np.array(self.positions, dtype=np.int64),
            parents=np.array(self.parents, dtype=np.int64),
            groups=np.array(self.groups, dtype=np.int64),
            trained=np.array(self.trained, dtype=np.bool_),
            logprobs=np.array(self.logprobs, dtype=np.float32),
            advantages=np.array(self.advantages, dtype=np.float32),
            weights=np.array(self.weights, dtype=np.float32),
        )
