"""One step of training: from a state and judged samples to the next state."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from precis.rehearsal.checkpoint_files import TrainingState
from precis.rehearsal.grpo import Adam, descend, logprobs_of, objective
from precis.rehearsal.kind import Batch, Floats, Policy
from precis.settings.trainer import EmbeddedTrainer


@dataclass(frozen=True, eq=False)
class Pass:
    """The state after one pass over a step's samples, and what the pass measured."""

    trained: TrainingState
    metrics: dict[str, float]


def passes(trained: TrainingState, batch: Batch, settings: EmbeddedTrainer) -> Iterator[Pass]:
    """Train on samples with their advantages, `settings.epochs` times over.

    Every state that is yielded is of the next step; the last is the one to keep.
    """
    reference = logprobs_of(trained.reference, batch)
    weights = trained.policy.weights
    adam = trained.adam
    for _ in range(settings.epochs):
        found = objective(weights, batch, reference, settings.clip_epsilon, settings.kl_coefficient)
        weights, adam = descend(weights, adam, found.gradient, settings.learning_rate)
        yield Pass(_next(trained, weights, adam), found.metrics)


def imitate(trained: TrainingState, batch: Batch, learning_rate: float) -> Pass:
    """One update towards given picks, by maximum likelihood; each has the advantage 1."""
    now = logprobs_of(trained.policy.weights, batch)
    found = objective(trained.policy.weights, batch.replaced(now), now, 0.5, 0.0)
    likelihood = float(now.sum() / batch.valid.sum())
    weights, adam = descend(trained.policy.weights, trained.adam, found.gradient, learning_rate)
    metrics = {"loss/train": -likelihood, "loss/grad_norm": found.metrics["loss/grad_norm"]}
    policy = replace(trained.policy, weights=weights)
    return Pass(replace(trained, policy=policy, adam=adam), metrics)


def end_imitation(trained: TrainingState) -> TrainingState:
    """What reinforcement begins with after imitation.

    The KL penalty pulls to the policy that has imitated. Adam begins anew, as ART has it: its
    moments are those of another loss.
    """
    zero = np.zeros_like(trained.policy.weights)
    return replace(trained, reference=trained.policy.weights, adam=Adam(zero, zero, 0))


def advance(trained: TrainingState) -> TrainingState:
    """The next step with nothing learned."""
    return replace(trained, step=trained.step + 1)


def _next(trained: TrainingState, weights: Floats, adam: Adam) -> TrainingState:
    return replace(advance(trained), policy=Policy(weights, trained.policy.seed), adam=adam)
