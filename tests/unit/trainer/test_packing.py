"""Samples into sequences and updates: how many updates there are, and what each token counts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precis.errors import TrainerError
from precis.trainer.gpu.packing import PackedSequence, pack
from precis.trainer.tokens import TrainingSample

PROMPT = 30


def sample(prompt: int, answer: int, advantage: float = 1.0) -> TrainingSample:
    """An answer of so many tokens to one of the prompts, which are all of one length."""
    shared = [1000 * prompt + position for position in range(PROMPT)]
    return TrainingSample(
        token_ids=shared + [7] * answer,
        assistant_mask=[0] * PROMPT + [1] * answer,
        logprobs=[float("nan")] * PROMPT + [-1.0] * answer,
        advantage=advantage,
        prompt_id=prompt,
        prompt_length=PROMPT - 1,
    )


def step(answers: list[list[int]]) -> list[TrainingSample]:
    """A step's samples: for each prompt the lengths of its answers; half of them did well."""
    return [
        sample(prompt, length, (prompt + 1) * (0.1 if number % 2 else -0.3))
        for prompt, lengths in enumerate(answers)
        for number, length in enumerate(lengths)
    ]


def packed(
    samples: list[TrainingSample], updates: int, tokens_max: int = 1024
) -> list[list[PackedSequence]]:
    return pack(samples, updates=updates, tokens_max=tokens_max, seed="1/0")


def test_answers_to_one_prompt_share_it_and_stand_where_they_were_sampled() -> None:
    ((sequence,),) = packed(step([[40] * 4]), 1)
    used = int((sequence.groups >= 0).sum())
    assert used == 29 + 4 * (1 + 40)  # the prompt's last token predicts each answer's first
    for group in set(sequence.groups[sequence.trained].tolist()):
        positions = sequence.positions[sequence.trained & (sequence.groups == group)]
        assert positions.tolist() == list(range(30, 70))


def test_a_long_rollout_counts_as_much_as_its_tokens() -> None:
    ((sequence,),) = packed([sample(0, 300), sample(0, 100, -1.0)], 1)
    of_longer = sequence.advantages > 0
    assert float(sequence.weights[of_longer].sum()) == pytest.approx(0.75, abs=1e-3)


def test_the_same_seed_gives_the_same_order_and_another_seed_another() -> None:
    samples = step([[10, 20, 30, 40]] * 4)
    one, again = packed(samples, 4), packed(samples, 4)
    other = pack(samples, updates=4, tokens_max=1024, seed="1/1")
    first = [sequence.tokens.tolist() for update in one for sequence in update]
    assert first == [sequence.tokens.tolist() for update in again for sequence in update]
    assert first != [sequence.tokens.tolist() for update in other for sequence in update]


def test_a_sample_that_fits_nowhere_is_named() -> None:
    with pytest.raises(TrainerError, match=r"A sample of 2030 tokens .* raise trainer\.engine"):
        packed([sample(0, 2000)], 1)


@given(
    answers=st.lists(st.lists(st.integers(1, 200), min_size=1, max_size=6), min_size=1, max_size=5),
    updates=st.integers(1, 8),
)
def test_any_step_is_packed_whole_and_within_bounds(answers: list[list[int]], updates: int) -> None:
    samples = step(answers)
    made = packed(samples, updates, 512)
    assert len(made) == min(updates, len(samples))
    for update in made:
        total = sum(float(sequence.weights.sum()) for sequence in update)
        assert total == pytest.approx(1.0, abs=1e-5)
    sizes = []
    for sequence in (one for update in made for one in update):
        assert len(sequence.tokens) <= 512
        sizes += np.abs(sequence.advantages[sequence.trained]).tolist()
        for parent in set(sequence.parents[sequence.trained].tolist()):
            shared = (sequence.parents == parent) & ~sequence.trained
            assert len(set(sequence.tokens[shared] // 1000)) == 1, "it sees another's prompt"
        assert np.isnan(sequence.logprobs[~sequence.trained]).all()
        assert not sequence.weights[~sequence.trained].any()
    assert len(sizes) == sum(map(sum, answers))
    assert np.mean(sizes) == pytest.approx(1.0, abs=1e-4)
