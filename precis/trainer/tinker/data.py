"""Samples as the Tinker API's losses want them.

Position i of the input predicts position i + 1 of the sample. The API adds up its losses over
tokens, so what each token counts is multiplied into its advantage, or is its weight: over an update
it all adds up to 1.
"""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import tinker

from precis.records.warm_start import batches
from precis.trainer.tokens import TrainingSample, divide, token_weight


@dataclass(frozen=True)
class Update:
    """The samples of one move of the optimizer.

    Attributes:
        data: as the API takes them.
        samples: the same as they were.
    """

    data: list[tinker.Datum]
    samples: Sequence[TrainingSample]


def make_updates(samples: Sequence[TrainingSample], count: int, seed: str) -> list[Update]:
    """Return so many updates by reinforcement, fewer where there are fewer samples, in a seeded
    order."""
    order = list(samples)
    random.Random(seed).shuffle(order)
    updates = []
    for chosen in divide(order, count):
        weight = token_weight(chosen)
        data = []
        for sample in chosen:
            mask = _mask(sample)
            logprobs = np.where(mask, np.array(sample.logprobs[1:]), 0.0)
            advantages = np.where(mask, sample.advantage * weight, 0.0)
            data.append(_datum(sample, logprobs=logprobs, advantages=advantages))
        updates.append(Update(data, chosen))
    return updates


def make_imitations(
    demonstrations: Sequence[Sequence[TrainingSample]], size: int, seed: str
) -> Iterator[Update]:
    """Yield updates by imitation, of so many demonstrations each, without end."""
    for chosen in batches(demonstrations, size, seed):
        weight = token_weight(chosen)
        data = []
        for sample in chosen:
            data.append(_datum(sample, weights=np.where(_mask(sample), weight, 0.0)))
        yield Update(data, chosen)


def logprob_gap(update: Update, output: tinker.ForwardBackwardOutput) -> float:
    """Return how far the trainer's log probabilities of the sampled tokens are from the sampler's,
    on average: next to nothing for the first update of a step."""
    gaps: list[float] = []
    for sample, result in zip(update.samples, output.loss_fn_outputs, strict=True):
        ours = np.array(sample.logprobs[1:])
        theirs = np.array(result["logprobs"].data)
        gaps.extend(np.abs(theirs - ours)[_mask(sample)].tolist())
    return math.fsum(gaps) / len(gaps)


def _datum(sample: TrainingSample, **inputs: npt.NDArray[np.float64]) -> tinker.Datum:
    targets = np.array(sample.token_ids[1:], dtype=np.int64)
    tensors = {"target_tokens": tinker.TensorData.from_numpy(targets)}
    for name, values in inputs.items():
        tensors[name] = tinker.TensorData.from_numpy(values.astype(np.float32))
    return tinker.Datum(
        model_input=tinker.ModelInput.from_ints(sample.token_ids[:-1]), loss_fn_inputs=tensors
    )


def _mask(sample: TrainingSample) -> npt.NDArray[np.bool_]:
    return np.array(sample.assistant_mask[1:], dtype=np.bool_)
