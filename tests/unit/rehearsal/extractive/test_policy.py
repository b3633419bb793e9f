import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precis.rehearsal.extractive.features import NAMES, featurize
from precis.rehearsal.extractive.kind import SENTENCES
from precis.rehearsal.extractive.policy import candidates, logprobs, pick, scores, summary
from precis.rehearsal.grpo import pick_logprobs
from precis.rehearsal.kind import LinearPolicy, untrained
from precis.text import count_words

TEXT = (
    "Fire at mill\n"
    "A fire destroyed the Harlow mill on Tuesday. Nobody was hurt. The loss is put at $2 million. "
    "Crews from three towns came. Smoke hung over the valley for hours because wool was stored. "
    "Owner Jan Peeters plans to rebuild in 2026."
)
START = untrained(SENTENCES.layout, 1)
FEATURES = featurize(TEXT)


def generator(seed: int = 7) -> np.random.Generator:
    return np.random.default_rng(seed)


def random_policy(seed: int) -> LinearPolicy:
    return LinearPolicy(generator(seed).normal(size=len(NAMES)) * 0.5, seed)


@given(st.integers(0, 99), st.integers(0, 60), st.sampled_from([0.0, 0.5, 1.0, 2.0]))
def test_picks_fill_the_budget_and_never_exceed_it(
    seed: int, words_max: int, temperature: float
) -> None:
    picks = pick(random_policy(seed), FEATURES, words_max, temperature, generator(seed))
    left = words_max - int(FEATURES.words[list(picks)].sum())
    unpicked = [n for n in range(len(FEATURES.words)) if n not in picks]
    assert len(set(picks)) == len(picks)
    assert left >= 0
    assert all(FEATURES.words[n] > left for n in unpicked)
    assert count_words(summary(FEATURES, picks)) == words_max - left


def test_greedy_picks_the_best_that_fits_first() -> None:
    policy = random_policy(3)
    ranking = np.argsort(-scores(policy, FEATURES)).tolist()
    picks = pick(policy, FEATURES, 30, 0.0, generator())
    fitting = [n for n in ranking if FEATURES.words[n] <= 30]
    assert picks[0] == fitting[0]
    found = scores(policy, FEATURES)[list(picks)]
    assert list(found) == sorted(found, reverse=True)


def test_sampling_draws_from_the_softmax_of_what_still_fits() -> None:
    policy, words_max, draws = random_policy(5), 18, 20_000
    source = generator()
    seen: dict[tuple[int, ...], int] = {}
    for _ in range(draws):
        drawn = pick(policy, FEATURES, words_max, 1.0, source)
        seen[drawn] = seen.get(drawn, 0) + 1
    for picks, count in seen.items():
        expected = float(np.exp(logprobs(policy, FEATURES, picks, words_max).sum()))
        margin = 5 * np.sqrt(expected * (1 - expected) / draws) + 1e-4
        assert count / draws == pytest.approx(expected, abs=margin)


def test_the_probabilities_of_all_ways_to_pick_sum_to_one() -> None:
    policy, words_max = random_policy(1), 15

    def ways(picks: tuple[int, ...]) -> list[tuple[int, ...]]:
        left = words_max - int(FEATURES.words[list(picks)].sum())
        further = [n for n in range(len(FEATURES.words)) if n not in picks]
        fitting = [n for n in further if FEATURES.words[n] <= left]
        return [way for n in fitting for way in ways((*picks, n))] or [picks]

    total = sum(np.exp(logprobs(policy, FEATURES, way, words_max).sum()) for way in ways(()))
    assert total == pytest.approx(1.0)


def test_the_untrained_policy_is_uniform_and_prefers_no_position() -> None:
    picks = pick(START, FEATURES, 20, 1.0, generator())
    sizes = candidates(FEATURES.words, picks, 20).sum(axis=1)
    assert logprobs(START, FEATURES, picks, 20) == pytest.approx(-np.log(sizes))
    starts = [untrained(SENTENCES.layout, seed) for seed in range(40)]
    greedy = [pick(start, FEATURES, 20, 0.0, generator()) for start in starts]
    assert len({way[0] for way in greedy}) > 4
    assert greedy[0] == pick(starts[0], FEATURES, 20, 0.0, generator())


def test_entropy_is_that_of_the_distribution() -> None:
    logits = np.array([[0.0, 1.0, 2.0]])
    masks = np.array([[[True, True, False]]])
    found = pick_logprobs(logits, masks, np.array([[1]]))
    p = np.e / (1 + np.e)
    assert found.of_picks[0, 0] == pytest.approx(np.log(p))
    assert found.entropy[0, 0] == pytest.approx(-p * np.log(p) - (1 - p) * np.log(1 - p))


def test_a_summary_is_in_document_order_and_keeps_headings_apart() -> None:
    assert summary(FEATURES, (2, 0, 3)) == (
        "Fire at mill\nNobody was hurt. The loss is put at $2 million."
    )
