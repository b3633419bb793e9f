import numpy as np
import pytest

from precis.rehearsal.extractive.features import NAMES, featurize
from precis.rehearsal.extractive.policy import logprobs, pick
from precis.rehearsal.grpo import pick_logprobs
from precis.rehearsal.kind import LinearPolicy

TEXT = (
    "Fire at mill\n"
    "A fire destroyed the Harlow mill on Tuesday. Nobody was hurt. The loss is put at $2 million. "
    "Crews from three towns came. Smoke hung over the valley for hours because wool was stored. "
    "Owner Jan Peeters plans to rebuild in 2026."
)
FEATURES = featurize(TEXT)


def generator(seed: int = 7) -> np.random.Generator:
    return np.random.default_rng(seed)


def random_policy(seed: int) -> LinearPolicy:
    return LinearPolicy(generator(seed).normal(size=len(NAMES)) * 0.5, seed)


def test_sampling_draws_from_the_softmax_of_what_still_fits() -> None:
    policy, words_max, draws = random_policy(5), 18, 20_000
    source = generator()
    seen: dict[tuple[int, ...], int] = {}
    for _ in range(draws):
        drawn = pick(policy, FEATURES, words_max, 1.0, source)
        seen[drawn] = seen.get(drawn, 0) + 1
    chances = []
    for picks, count in seen.items():
        expected = float(np.exp(logprobs(policy, FEATURES, picks, words_max).sum()))
        chances.append(expected)
        margin = 5 * np.sqrt(expected * (1 - expected) / draws) + 1e-4
        assert count / draws == pytest.approx(expected, abs=margin)
    assert sum(chances) == pytest.approx(1.0, abs=0.01)


def test_entropy_is_that_of_the_distribution() -> None:
    logits = np.array([[0.0, 1.0, 2.0]])
    masks = np.array([[[True, True, False]]])
    found = pick_logprobs(logits, masks, np.array([[1]]))
    p = np.e / (1 + np.e)
    assert found.of_picks[0, 0] == pytest.approx(np.log(p))
    assert found.entropy[0, 0] == pytest.approx(-p * np.log(p) - (1 - p) * np.log(1 - p))
