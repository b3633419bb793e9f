"""A kind of embedded policy: what its weights mean, how it answers, and what it learns from."""

import hashlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from precis.llm.server import ChatRequest, Choice

if TYPE_CHECKING:
    import art

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class LinearPolicy:
    """A policy whose scores are linear in its weights; the seed decides between equal scores."""

    weights: Floats
    seed: int

    def rank(self, scores: Floats, texts: Iterable[str]) -> Integers:
        """Return the numbers of scored texts, the best first."""
        ties = []
        for text in texts:
            digest = hashlib.blake2b(f"{self.seed}:{text}".encode(), digest_size=7).digest()
            ties.append(int.from_bytes(digest))
        return np.lexsort((np.array(ties, dtype=np.int64), -scores))


@dataclass(frozen=True)
class Layout:
    """The meaning of a kind's weights, and the way in which they are written down.

    Attributes:
        version: raised when a weight changes its meaning: those of another version do not
            apply.
        names: of the weights, in order; where there are none, those that are not zero are
            written in base64, as little-endian int32 numbers and float64 values.
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
        arrays = {"numbers": numbers.astype("<i4"), "values": weights[numbers].astype("<f8")}
        return {name: b64encode(array.tobytes()).decode() for name, array in arrays.items()}

    def decode(self, encoded: Mapping[str, Any]) -> Floats:
        """Return the weights that `encode` was given.

        Raises:
            KeyError, ValueError, IndexError, TypeError: they are of another kind.
        """
        if self.names:
            return np.array([encoded[name] for name in self.names], dtype=np.float64)
        weights = np.zeros(self.size)
        numbers = np.frombuffer(b64decode(encoded["numbers"], validate=True), "<i4")
        weights[numbers] = np.frombuffer(b64decode(encoded["values"], validate=True), "<f8")
        return weights


class Sample(Protocol):
    """A decision or several that earned a reward together."""

    @property
    def picks(self) -> Sequence[int]:
        """The candidates that were picked, one for each decision; a sample may have none."""

    @property
    def reward(self) -> float:
        """The reward of the rollout."""

    @property
    def order(self) -> tuple[Any, ...]:
        """The values that samples are sorted by, whenever they arrive."""

    def with_advantage(self, advantage: float) -> Self:
        """Return the sample with its advantage over its group."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Batch:
    """Samples side by side, padded to the longest, with the candidates of each pick.

    `masks` has the shape (samples, picks, candidates), `advantages` (samples,), and `picks`,
    `valid` and `logprobs` (samples, picks).
    """

    masks: Bools
    picks: Integers
    valid: Bools
    logprobs: Floats
    advantages: Floats

    def scores(self, weights: Floats) -> Floats:
        """Return the score of each candidate, shape (samples, candidates)."""
        raise NotImplementedError

    def gradient(self, by_score: Floats) -> Floats:
        """Return a loss's gradient by the weights, from that by the scores."""
        raise NotImplementedError


class PolicyKind(Protocol):
    """The parts in which one embedded policy differs from another."""

    @property
    def layout(self) -> Layout: ...

    def answer(self, policy: LinearPolicy, asked: ChatRequest) -> list[Choice]:
        """Return as many answers as are asked for, with their token ids and log probabilities.

        Raises:
            ApiError: 400, where the policy has nothing to pick from.
        """
        ...

    def samples_of(self, trajectory: "art.Trajectory") -> list[Any]:
        """Return what is to be learned from a rollout, or say why nothing in a PrecisError."""
        ...

    def demonstrations_of(self, trajectory: "art.Trajectory") -> list[Any]:
        """Return what is to be imitated of a trajectory, or say why nothing in a PrecisError."""
        ...

    def batch_of(self, samples: Sequence[Any]) -> Batch:
        """Lay samples out side by side. Each has at least one pick."""
        ...

    def count_tokens(self, samples: Sequence[Any]) -> float:
        """Return how many tokens samples have, as the answers' usage counts them."""
        ...
