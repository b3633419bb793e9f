"""Samples packed into sequences, and sequences into updates of the optimizer.

The number of updates in a step follows from the number of its samples, never from their lengths:
ART's own packing makes an update of each sequence, so that one long sample changes the number of
updates, and with it the effective learning rate, up to fourfold.

Samples of one prompt in the same sequence share it: the prompt is computed once, each
answer sees the prompt and itself, at the positions that it had when it was sampled.
"""

import random
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields
from itertools import chain

import numpy as np
import numpy.typing as npt

from precis.errors import TrainerError
from precis.trainer.tokens import TrainingSample, divide, token_weight


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
    seed: str,
) -> list[Update]:
    """Divide a step's samples among its updates, and pack each update's into sequences.

    Args:
        samples: those of one prompt next to each other.
        updates: how often the optimizer is to move; fewer where there are fewer samples.
        tokens_max: the longest sequence.
        seed: of the order of the prompts, and of the samples of each.

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
    size = sum(abs(sample.advantage) * sample.trained for sample in ordered)
    scale = 1 / (size * token_weight(ordered)) if size else 1.0
    return [_pack_update(chosen, tokens_max, scale) for chosen in divide(ordered, updates)]


def count_trained(updates: Sequence[Update]) -> int:
    """Return the number of sampled tokens in some updates."""
    return sum(int(sequence.trained.sum()) for sequence in chain.from_iterable(updates))


def _pack_update(samples: Sequence[TrainingSample], tokens_max: int, scale: float) -> Update:
    weight = token_weight(samples)
    drafts = [_Draft()]
    for number, sample in enumerate(samples):
        if len(sample.token_ids) > tokens_max:
            raise TrainerError(
                f"A sample of {len(sample.token_ids)} tokens does not fit into a training sequence "
                f"of {tokens_max}: raise trainer.engine.packed_tokens."
            )
        if drafts[-1].length + drafts[-1].needs(sample) > tokens_max:
            drafts.append(_Draft())
        # Behind the numbers of the prompts, of which there are no more than samples.
        group = len(samples) + number
        drafts[-1].add(sample, group, sample.advantage * scale, weight)
    return [draft.finish() for draft in drafts]


class _Draft:
    """A sequence that is being filled."""

    def __init__(self) -> None:
        self.length = 0
        self._parts: list[PackedSequence] = []
        self._prompts: dict[Hashable, int] = {}

    def needs(self, sample: TrainingSample) -> int:
        """Count the tokens that the sample adds."""
        shared = sample.prompt_length if sample.prompt_id in self._prompts else 0
        return len(sample.token_ids) - shared

    def add(self, sample: TrainingSample, group: int, advantage: float, weight: float) -> None:
        added = self.needs(sample)
        start = len(sample.token_ids) - added
        parent = self._prompts.setdefault(sample.prompt_id, len(self._prompts))
        positions = np.arange(start, len(sample.token_ids))
        trained = np.array(sample.assistant_mask[start:], dtype=np.bool_)
        self.length += added
        self._parts.append(
            PackedSequence(
                tokens=np.array(sample.token_ids[start:], dtype=np.int64),
                positions=positions,
                parents=np.full(added, parent),
                groups=np.where(positions < sample.prompt_length, parent, group),
                trained=trained,
                logprobs=np.array(sample.logprobs[start:], dtype=np.float32),
                advantages=np.where(trained, advantage, 0.0).astype(np.float32),
                weights=np.where(trained, weight, 0.0).astype(np.float32),
            )
        )

    def finish(self) -> PackedSequence:
        joined = {}
        for field in fields(PackedSequence):
            parts = [getattr(part, field.name) for part in self._parts]
            joined[field.name] = np.concatenate(parts)
        return PackedSequence(**joined)
