"""GRPO in numpy: clipped ratios per pick, a KL penalty to the untrained policy, and Adam.

Everything here is bit-deterministic: sums run in a fixed order and never in BLAS, whose results
depend on its number of threads.
"""

from dataclasses import dataclass

import numpy as np

from precis.rehearsal.kind import Batch, Bools, Floats, Integers

# Adam's defaults, as recommended by its authors.
_BETA_MEAN = 0.9
_BETA_SQUARE = 0.999
_EPSILON = 1e-8
# Far beyond any clip, and far below where `exp` overflows.
_LOG_RATIO_MAX = 20.0


@dataclass(frozen=True, eq=False)
class Adam:
    """Adam's running moments and their number of steps (Kingma & Ba 2015)."""

    mean: Floats
    square: Floats
    count: int


@dataclass(frozen=True, eq=False)
class PickLogprobs:
    """The distributions of picks: the log-probability of each pick and the entropy in nats, shape
    (samples, picks), and the probability of each candidate."""

    of_picks: Floats
    of_candidates: Floats
    entropy: Floats


def pick_logprobs(scores: Floats, masks: Bools, picks: Integers) -> PickLogprobs:
    """Return the softmax of each pick. Scores have the shape (samples, candidates), picks (samples,
    picks), and masks, without empty rows, (samples, picks, candidates)."""
    logits = np.where(masks, scores[:, None, :], -np.inf)
    shifted = logits - logits.max(axis=2, keepdims=True)
    odds = np.exp(shifted)
    total = odds.sum(axis=2)
    probabilities = odds / total[:, :, None]
    of_picks = np.take_along_axis(shifted, picks[:, :, None], axis=2)[:, :, 0] - np.log(total)
    expected = (probabilities * np.where(masks, shifted, 0.0)).sum(axis=2)
    return PickLogprobs(of_picks, probabilities, np.log(total) - expected)


def logprobs_of(weights: Floats, batch: Batch) -> Floats:
    """Return the log-probability of each pick under these weights, shape (samples, picks)."""
    return pick_logprobs(batch.scores(weights), batch.masks, batch.picks).of_picks


def objective(
    weights: Floats,
    batch: Batch,
    reference: Floats,
    clip_epsilon: float,
    kl_coefficient: float,
) -> tuple[Floats, dict[str, float]]:
    """Return the gradient of GRPO's loss by the weights, and the metrics. All are averaged over the
    picks of the batch.

    For each pick: -min(r·A, clip(r, 1±ε)·A) + β·(exp(d) - d - 1), where r is the probability
    ratio to the policy that sampled, A the sample's advantage and d the log-ratio of the
    reference to the policy (the k3 estimator, http://joschu.net/blog/kl-approx.html). `reference`
    are the picks' log-probabilities under it, from `logprobs_of`.
    """
    now = pick_logprobs(batch.scores(weights), batch.masks, batch.picks)
    advantage = batch.advantages[:, None]
    picks = float(batch.valid.sum())
    ratio = np.exp(np.clip(now.of_picks - batch.logprobs, -_LOG_RATIO_MAX, _LOG_RATIO_MAX))
    free = ratio * advantage
    clipped = np.clip(ratio, 1 - clip_epsilon, 1 + clip_epsilon) * advantage
    behind = np.clip(reference - now.of_picks, -_LOG_RATIO_MAX, _LOG_RATIO_MAX)
    kl = np.exp(behind) - behind - 1
    slope = -np.where(free <= clipped, free, 0.0) + kl_coefficient * (1 - np.exp(behind))
    slope = np.where(batch.valid, slope, 0.0) / picks
    # A pick's log-probability rises with its own features and falls with the expected ones.
    by_score = -(slope[:, :, None] * now.of_candidates).sum(axis=1)
    np.add.at(by_score, (np.arange(len(slope))[:, None], batch.picks), slope)
    gradient = batch.gradient(by_score)

    def mean(values: Floats) -> float:
        return float(np.where(batch.valid, values, 0.0).sum() / picks)

    metrics = {
        "loss/train": mean(kl_coefficient * kl - np.minimum(free, clipped)),
        "loss/kl_policy_ref": mean(kl),
        "loss/entropy": mean(now.entropy),
        "loss/clip_fraction": mean((clipped < free).astype(np.float64)),
        "loss/grad_norm": float(np.sqrt((gradient**2).sum())),
    }
    return gradient, metrics


def descend(
    weights: Floats, adam: Adam, gradient: Floats, learning_rate: float
) -> tuple[Floats, Adam]:
    """Take one step of Adam; return the new weights and moments."""
    count = adam.count + 1
    mean = _BETA_MEAN * adam.mean + (1 - _BETA_MEAN) * gradient
    square = _BETA_SQUARE * adam.square + (1 - _BETA_SQUARE) * gradient**2
    mean_hat = mean / (1 - _BETA_MEAN**count)
    square_hat = square / (1 - _BETA_SQUARE**count)
    step = learning_rate * mean_hat / (np.sqrt(square_hat) + _EPSILON)
    return weights - step, Adam(mean, square, count)
