"""One training step: from a state and scored samples to the next state."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from precis.rehearsal.checkpoint_files import TrainingState
from precis.rehearsal.grpo import Adam, descend, logprobs_of, objective
from precis.rehearsal.kind import Batch, Floats, Sample
from precis.settings.trainer import EmbeddedTrainer

S = TypeVar("S", bound=Sample)
Group = Sequence[Sequence[S]]
"""The rollouts of a scenario, each with its samples."""


def with_advantages(
    groups: Sequence[Group[S]], scale_rewards: bool = True
) -> tuple[list[S], list[float]]:
    """Return the samples of all groups with differing rewards, and their advantages: (reward -
    mean) / deviation over the group (Shao et al. 2024, https://arxiv.org/abs/2402.03300), or,
    unscaled, reward - mean (Liu et al. 2025, https://arxiv.org/abs/2503.20783). Rollouts arrive in
    any order, and are sorted, because floating-point sums depend on the order."""
    ordered = []
    for group in groups:
        learned_from = [list(rollout) for rollout in group if rollout]
        ordered.append(sorted(learned_from, key=_order))
    ordered.sort(key=lambda group: list(map(_order, group)))
    samples = []
    advantages = []
    for group in ordered:
        rewards = np.array([rollout[0].reward for rollout in group])
        if not len(rewards) or (rewards == rewards[0]).all():
            continue
        above = rewards - rewards.mean()
        if scale_rewards:
            above = above / rewards.std()
        for rollout, advantage in zip(group, above.tolist(), strict=True):
            for sample in rollout:
                if sample.picks:
                    samples.append(sample)
                    advantages.append(advantage)
    return samples, advantages


def _order(rollout: Sequence[Sample]) -> list[object]:
    return [sample.order for sample in rollout]


Pass = tuple[TrainingState, dict[str, float]]
"""The state after one pass over a batch, and the pass's metrics."""


def passes(trained: TrainingState, batch: Batch, settings: EmbeddedTrainer) -> Iterator[Pass]:
    """Train on a batch with its advantages, `settings.epochs` times over. Every yielded state is of
    the next step; the last is the result."""
    reference = logprobs_of(trained.reference, batch)
    after = advance(trained)
    for _ in range(settings.epochs):
        gradient, metrics = objective(
            after.policy.weights,
            batch,
            reference,
            settings.clip_epsilon,
            settings.kl_coefficient,
        )
        after = _descend(after, gradient, settings.learning_rate)
        yield after, metrics


def imitate(trained: TrainingState, batch: Batch, learning_rate: float) -> Pass:
    """Take one update towards given picks, by maximum likelihood; each has the advantage 1."""
    now = logprobs_of(trained.policy.weights, batch)
    sampled_now = replace(batch, logprobs=now)
    gradient, metrics = objective(trained.policy.weights, sampled_now, now, 0.5, 0.0)
    likelihood = float(now.sum() / batch.valid.sum())
    metrics = {"loss/train": -likelihood, "loss/grad_norm": metrics["loss/grad_norm"]}
    return _descend(trained, gradient, learning_rate), metrics


def _descend(trained: TrainingState, gradient: Floats, learning_rate: float) -> TrainingState:
    weights, adam = descend(trained.policy.weights, trained.adam, gradient, learning_rate)
    return replace(trained, policy=replace(trained.policy, weights=weights), adam=adam)


def end_imitation(trained: TrainingState) -> TrainingState:
    """Return the state for reinforcement learning after imitation. The KL penalty pulls to the
    policy after it, and Adam is reset, as in ART: its moments are those of another loss."""
    zero = np.zeros_like(trained.policy.weights)
    return replace(trained, reference=trained.policy.weights, adam=Adam(zero, zero, 0))


def advance(trained: TrainingState) -> TrainingState:
    """Return the next step's state without learning."""
    return replace(trained, step=trained.step + 1)
