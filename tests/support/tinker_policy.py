"""The language model of the Tinker server of the tests: it copies a part of what it reads.

A prompt is divided into ten parts of equal length, and an answer is the beginning of one of them.
Which one is all that there is to learn: ten numbers, whose softmax is how likely each part is. The
first token of an answer carries that choice's log probability; the others follow, and are certain.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from precis.rehearsal.grpo import Adam, descend

PARTS = 10
_COPIED = 300

Vector = npt.NDArray[np.float64]


def _zeros() -> Vector:
    return np.zeros(PARTS)


def _fresh() -> Adam:
    return Adam(_zeros(), _zeros(), 0)


@dataclass
class CopyingPolicy:
    """Ten numbers, and what Adam knows of them."""

    logits: Vector = field(default_factory=_zeros)
    adam: Adam = field(default_factory=_fresh)
    gradient: Vector = field(default_factory=_zeros)

    def copied(self, *, with_optimizer: bool = True) -> "CopyingPolicy":
        """What is saved of it, and loaded again: a gradient that waits for its move is not."""
        return CopyingPolicy(self.logits, self.adam if with_optimizer else _fresh())

    def logprobs(self) -> Vector:
        """How likely each part is."""
        shifted = self.logits - self.logits.max()
        result: Vector = shifted - np.log(np.exp(shifted).sum())
        return result

    def sample(
        self, prompt: Sequence[int], tokens_max: int, end: int, temperature: float, seed: int
    ) -> tuple[list[int], list[float]]:
        """An answer, and the log probability of each of its tokens."""
        logprobs = self.logprobs()
        if temperature == 0:
            part = int(np.argmax(logprobs))
        else:
            part = int(np.random.default_rng(seed).choice(PARTS, p=np.exp(logprobs)))
        tokens = [*_part(prompt, part), end][:tokens_max]
        return tokens, [float(logprobs[part]), *[0.0] * (len(tokens) - 1)]

    def learn(self, datum: dict[str, Any], loss: str) -> tuple[float, list[float]]:
        """Add to the gradient; gives the loss and the log probability of each target."""
        tokens = [id for chunk in datum["model_input"]["chunks"] for id in chunk["tokens"]]
        inputs = {name: one["data"] for name, one in datum["loss_fn_inputs"].items()}
        counted = inputs["weights" if loss == "cross_entropy" else "advantages"]
        if {len(values) for values in inputs.values()} != {len(tokens)}:
            raise ValueError("The inputs of a loss have not one number for each token.")
        begin = next(at for at, value in enumerate(counted) if value)
        part = _part_of(tokens[: begin + 1], inputs["target_tokens"][begin:])
        targets = [0.0] * len(tokens)
        if part is None:
            return 0.0, targets
        logprob = float(self.logprobs()[part])
        targets[begin] = logprob
        chosen = np.eye(PARTS)[part] - np.exp(self.logprobs())
        if loss == "cross_entropy":
            self.gradient -= counted[begin] * chosen
            return -counted[begin] * logprob, targets
        ratio = float(np.exp(logprob - inputs["logprobs"][begin]))
        self.gradient -= ratio * counted[begin] * chosen
        return -ratio * counted[begin], targets

    def move(self, learning_rate: float) -> None:
        self.logits, self.adam = descend(self.logits, self.adam, self.gradient, learning_rate)
        self.gradient = _zeros()


def _part(prompt: Sequence[int], part: int) -> list[int]:
    begin = len(prompt) * part // PARTS
    end = len(prompt) * (part + 1) // PARTS
    return list(prompt[begin : min(end, begin + _COPIED)])


def _part_of(prompt: Sequence[int], answer: Sequence[int]) -> int | None:
    """Which part an answer copies; None for one that it has not written."""
    length = len(answer) - 1  # it ends in a token of its own, or was cut there
    for part in range(PARTS):
        if length and _part(prompt, part)[:length] == list(answer[:length]):
            return part
    return None
