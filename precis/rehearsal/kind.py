"""A kind of embedded policy: its weights, its answers and its samples."""

import hashlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from precis.llm.server import ChatRequest, Choice

if TYPE_CHECKING:
    import art

Trajectory: TypeAlias = "art.Trajectory"
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class LinearPolicy:
    """A policy whose scores are linear in its weights; the seed breaks ties."""

    weights: Floats
    seed: int

    def rank(self, scores: Floats, texts: Iterable[str]) -> Integers:
        """Return the indices of scored texts, best first."""
        ties = []
        for text in texts:
            digest = hashlib.blake2b(f"{self.seed}:{text}".encode(), digest_size=7).digest()
            ties.append(int.from_bytes(digest))
        return np.lexsort((np.array(ties, dtype=np.int64), -scores))


@dataclass(frozen=True)
class Layout:
    """The meaning of a kind's weights, and their encoding.

    Attributes:
        version: raised when the meaning of a weight changes: those of another version do not apply.
        names: of the weights, in order; without names, nonzero weights are written in base64, as
            little-endian int32 indices and float64 values.
    """

    kind: str
    version: int
    size: int
    names: tuple[str, ...] = ()

    def encode(self, weights: Floats) -> dict[str, Any]:
        """Return weights as JSON."""
        if self.names:
            return dict(zip(self.names, weights.tolist(), strict=True))
        numbers = np.flatnonzero(weights)
        values = weights[numbers]
        return {
            "numbers": b64encode(numbers.astype("<i4").tobytes()).decode(),
            "values": b64encode(values.astype("<f8").tobytes()).decode(),
        }

    def decode(self, encoded: Mapping[str, Any]) -> Floats:
        """Decode the result of `encode`. Raises KeyError, ValueError, IndexError or TypeError if
        they are of another kind."""
        if self.names:
            return np.array([encoded[name] for name in self.names], dtype=np.float64)
        weights = np.zeros(self.size)
        numbers = np.frombuffer(b64decode(encoded["numbers"], validate=True), "<i4")
        weights[numbers] = np.frombuffer(b64decode(encoded["values"], validate=True), "<f8")
        return weights


class Sample(Protocol):
    """One or several decisions with a common reward."""

    @property
    def picks(self) -> Sequence[int]:
        """The picked candidates, one for each decision; a sample may have none."""

    @property
    def reward(self) -> float:
        """The reward of the rollout."""

    @property
    def order(self) -> tuple[Any, ...]:
        """The sort key of samples, independent of their arrival."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Batch:
    """A batch of samples, padded to the longest, with the candidates of each pick. `masks` has the
    shape (samples, picks, candidates), `advantages` (samples,), and `picks`, `valid` and `logprobs`
    (samples, picks)."""

    masks: Bools
    picks: Integers
    valid: Bools
    logprobs: Floats
    advantages: Floats

    def scores(self, weights: Floats) -> Floats:
        """Return the score of each candidate, shape (samples, candidates)."""
        raise NotImplementedError

    def gradient(self, by_score: Floats) -> Floats:
        """Return a loss's gradient by the weights, from the gradient by the scores."""
        raise NotImplementedError


class PolicyKind(Protocol):
    """The parts that differ between embedded policies."""

    @property
    def layout(self) -> Layout: ...

    def answer(self, policy: LinearPolicy, asked: ChatRequest) -> list[Choice]:
        """Return the requested number of answers, with their token ids and log probabilities.
        Raises ApiError, 400, if the policy has no candidates."""
        ...

    def samples_of(self, trajectory: Trajectory) -> list[Any]:
        """Return the samples of a rollout. Raises PrecisError if it can't be learned from."""
        ...

    def demonstrations_of(self, trajectory: Trajectory) -> list[Any]:
        """Return the samples to imitate of a trajectory. Raises PrecisError if it can't be."""
        ...

    def batch_of(self, samples: Sequence[Any], advantages: Sequence[float]) -> Batch:
        """Arrange samples as a batch, with their advantages. Each has at least one pick."""
        ...

    def count_tokens(self, samples: Sequence[Any]) -> float:
        """Return the number of tokens of samples, as in the answers' usage."""
        ...
