"""The embedded summarizer: its features, picks and checkpoints, and how GRPO trains it."""

import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precis.errors import CorruptCheckpoint
from precis.rehearsal.checkpoint_files import initial_state, load, save
from precis.rehearsal.extractive.features import NAMES, featurize
from precis.rehearsal.extractive.kind import SENTENCES, PickedSample, logprobs, pick
from precis.rehearsal.grpo import logprobs_of, objective, pick_logprobs
from precis.rehearsal.kind import Floats, LinearPolicy
from precis.rehearsal.train_step import passes, with_advantages
from precis.settings.trainer import ExtractiveTrainer
from tests.support.corpora import BUNDLED

ARTICLE = (
    "Bridge closed\n\n"
    "The old bridge in Norwick closed on 3 May 2024 because rust was found. "
    "It will stay shut for six weeks, said Mayor Ada Lindqvist. "
    "Many people like bridges.\n"
    "Repairs cost $40,000 and start at 7:30 a.m. on Monday."
)
START = initial_state(SENTENCES.layout, 1)
WORDS_MAX = 100


def sample(text: str, policy: LinearPolicy, seed: int) -> PickedSample:
    features = featurize(text)
    picks = pick(policy, features, WORDS_MAX, 1.0, np.random.default_rng(seed))
    kept = sum(any(c.isdigit() for c in features.sentences[n]) for n in picks)
    old = logprobs(policy, features, picks, WORDS_MAX)
    return PickedSample(features, WORDS_MAX, picks, tuple(old.tolist()), kept / len(picks))


def groups(policy: LinearPolicy, documents: int = 3) -> list[list[list[PickedSample]]]:
    """Groups of six rollouts, each of one sample."""
    return [[[sample(BUNDLED[d].text, policy, 100 * d + n)] for n in range(6)]
            for d in range(documents)]  # fmt: skip


def random_weights(seed: int) -> Floats:
    return np.random.default_rng(seed).normal(size=len(NAMES)) * 0.3


def test_text_without_sentence_ends_is_cut_into_pieces() -> None:
    assert featurize("word " * 200).words.tolist() == [80, 80, 40]


def test_another_process_sees_the_same_bits() -> None:
    program = (
        "import sys; from precis.rehearsal.extractive.features import featurize;"
        "print(featurize(sys.argv[1]).matrix.tobytes().hex())"
    )
    command = [sys.executable, "-c", program, ARTICLE]
    environment = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "1"}
    seen = subprocess.check_output(command, env=environment, text=True)
    assert seen.strip() == featurize(ARTICLE).matrix.tobytes().hex()


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=300))
def test_any_text_has_finite_features(text: str) -> None:
    features = featurize(text)
    assert features.matrix.shape == (len(features.sentences), len(NAMES))
    assert np.isfinite(features.matrix).all()


def test_sampling_draws_from_the_softmax_of_what_still_fits() -> None:
    policy, features = LinearPolicy(random_weights(5), 5), featurize(ARTICLE)
    draws, source = 20_000, np.random.default_rng(7)
    seen: dict[tuple[int, ...], int] = {}
    for _ in range(draws):
        drawn = pick(policy, features, 18, 1.0, source)
        seen[drawn] = seen.get(drawn, 0) + 1
    chances = []
    for picks, count in seen.items():
        expected = float(np.exp(logprobs(policy, features, picks, 18).sum()))
        chances.append(expected)
        margin = 5 * np.sqrt(expected * (1 - expected) / draws) + 1e-4
        assert count / draws == pytest.approx(expected, abs=margin)
    assert len(chances) > 2
    assert sum(chances) == pytest.approx(1.0, abs=0.01)


def test_entropy_is_that_of_the_distribution() -> None:
    logits = np.array([[0.0, 1.0, 2.0]])
    masks = np.array([[[True, True, False]]])
    found = pick_logprobs(logits, masks, np.array([[1]]))
    p = np.e / (1 + np.e)
    assert found.of_picks[0, 0] == pytest.approx(np.log(p))
    assert found.entropy[0, 0] == pytest.approx(-p * np.log(p) - (1 - p) * np.log(1 - p))


@pytest.mark.parametrize("clip_epsilon", [0.05, 0.2])
def test_the_gradient_agrees_with_finite_differences(clip_epsilon: float) -> None:
    batch = SENTENCES.batch_of(*with_advantages(groups(LinearPolicy(random_weights(1), 1))))
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
    level = [[replace(one, reward=0.1)] for [one] in second]
    assert with_advantages([level, []]) == ([], [])
    samples, _ = with_advantages([first, level])
    assert {one.features.sentences for one in samples} == {first[0][0].features.sentences}


def test_the_order_of_arrival_does_not_change_a_bit() -> None:
    def trained(found: list[list[list[PickedSample]]]) -> list[bytes]:
        batch = SENTENCES.batch_of(*with_advantages(found))
        done = passes(START, batch, ExtractiveTrainer())
        return [trained.policy.weights.tobytes() for trained, _ in done]

    ordered = groups(START.policy)
    shuffled = [random.Random(4).sample(group, len(group)) for group in reversed(ordered)]
    assert trained(ordered) == trained(shuffled)


@pytest.mark.parametrize(
    "content",
    ["{", "{}", '{"policy": "tool_calls"}', '{"policy": "sentences", "features_version": 0}'],
)
def test_a_damaged_checkpoint_is_refused_by_name(tmp_path: Path, content: str) -> None:
    (save(tmp_path, START, SENTENCES.layout) / "policy.json").write_text(content)
    with pytest.raises(CorruptCheckpoint, match=r"0000/policy\.json can't be used"):
        load(tmp_path, 0, SENTENCES.layout)
