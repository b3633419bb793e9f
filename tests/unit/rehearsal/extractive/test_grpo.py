import random
from dataclasses import replace

import numpy as np
import pytest

from precis.rehearsal.checkpoint_files import initial_state
from precis.rehearsal.extractive.features import NAMES, featurize
from precis.rehearsal.extractive.kind import SENTENCES
from precis.rehearsal.extractive.policy import PickedSample, logprobs, pick
from precis.rehearsal.grpo import logprobs_of, objective
from precis.rehearsal.kind import LinearPolicy
from precis.rehearsal.train_step import passes
from precis.settings.trainer import ExtractiveTrainer
from tests.support.policies import with_advantages_of

START = initial_state(SENTENCES.layout, 1)
WORDS_MAX = 30


def document(seed: int, count: int = 20) -> str:
    source = random.Random(seed)
    fillers = ["People like the place.", "There are many views on this.", "It was a day like any."]
    facts = ["The mill lost ${} in May.", "Ada Lind paid {} crowns.", "The road closed at {}:30."]
    return " ".join(
        source.choice(facts).format(source.randint(2, 9)) if source.random() < 0.3
        else source.choice(fillers)
        for _ in range(count)
    )  # fmt: skip


def sample(text: str, policy: LinearPolicy, seed: int) -> PickedSample:
    features = featurize(text)
    picks = pick(policy, features, WORDS_MAX, 1.0, np.random.default_rng(seed))
    kept = sum(any(c.isdigit() for c in features.sentences[n]) for n in picks)
    old = logprobs(policy, features, picks, WORDS_MAX)
    return PickedSample(features, WORDS_MAX, picks, tuple(old.tolist()), kept / len(picks))


def groups(policy: LinearPolicy, documents: int = 3, size: int = 6) -> list[list[PickedSample]]:
    return [[sample(document(d), policy, 100 * d + n) for n in range(size)]
            for d in range(documents)]  # fmt: skip


def random_weights(seed: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.random.default_rng(seed).normal(size=len(NAMES)) * 0.3


@pytest.mark.parametrize("clip_epsilon", [0.05, 0.2])
def test_the_gradient_agrees_with_finite_differences(clip_epsilon: float) -> None:
    batch = SENTENCES.batch_of(*with_advantages_of(groups(LinearPolicy(random_weights(1), 1))))
    weights, reference = random_weights(2), logprobs_of(random_weights(3), batch)
    gradient, metrics = objective(weights, batch, reference, clip_epsilon, 0.1)
    assert metrics["loss/clip_fraction"] > 0
    for index, slope in enumerate(gradient):
        step = np.zeros(len(NAMES))
        step[index] = 1e-6
        _, above = objective(weights + step, batch, reference, clip_epsilon, 0.1)
        _, below = objective(weights - step, batch, reference, clip_epsilon, 0.1)
        rise = above["loss/train"] - below["loss/train"]
        assert rise / 2e-6 == pytest.approx(slope, abs=1e-6)


def test_a_group_of_equal_rewards_is_left_out() -> None:
    first, second = groups(START.policy, documents=2)
    level = [replace(one, reward=0.1) for one in second]
    assert with_advantages_of([level, []]) == ([], [])
    samples, _ = with_advantages_of([first, level])
    assert {one.features.sentences for one in samples} == {first[0].features.sentences}


def test_the_order_of_arrival_does_not_change_a_bit() -> None:
    def trained(found: list[list[PickedSample]]) -> list[bytes]:
        batch = SENTENCES.batch_of(*with_advantages_of(found))
        done = passes(START, batch, ExtractiveTrainer())
        return [trained.policy.weights.tobytes() for trained, _ in done]

    ordered = groups(START.policy)
    shuffled = [random.Random(4).sample(group, len(group)) for group in reversed(ordered)]
    assert trained(ordered) == trained(shuffled)
