"""Trajectories as tokens: exactly those that were sampled, with ART's advantages."""

from typing import Any

import art
import pytest
from openai.types.chat.chat_completion import Choice

from precis.trainer.gpu.tokens import samples_of, tokenize_demonstrations
from tests.support.tokenizers import Tokenizer


def group(prompt: str, rewards: list[float]) -> art.TrajectoryGroup:
    trajectories = []
    for number, reward in enumerate(rewards):
        messages: Any = [{"role": "user", "content": prompt}, choice(prompt, number)]
        trajectories.append(art.Trajectory(messages_and_choices=messages, reward=reward))
    return art.TrajectoryGroup(trajectories)


def choice(prompt: str, number: int) -> Choice:
    """An answer of `number` + 1 tokens, as the recorder keeps it."""
    answer: dict[str, Any] = {"finish_reason": "stop", "index": 0}
    answer["prompt_token_ids"] = [1, *map(ord, prompt), 2]
    answer["token_ids"] = [500 + at for at in range(number + 1)]
    answer["token_logprobs"] = [-0.5 * (at + 1) for at in range(number + 1)]
    return Choice.model_validate({**answer, "message": {"role": "assistant", "content": "…"}})


def test_an_answer_is_the_tokens_that_were_sampled() -> None:
    _, longer = samples_of([group("ab", [0.0, 1.0])], scale_rewards=True)
    assert longer.token_ids == [1, ord("a"), ord("b"), 2, 500, 501]
    assert longer.assistant_mask == [0, 0, 0, 0, 1, 1]
    assert longer.logprobs[4:] == [-0.5, -1.0]
    assert longer.prompt_length == 3


def test_advantages_are_against_the_groups_mean_and_spread() -> None:
    groups = [group("ab", [0.0, 0.5, 1.0, 1.0])]
    scaled = [one.advantage for one in samples_of(groups, scale_rewards=True)]
    plain = [one.advantage for one in samples_of(groups, scale_rewards=False)]
    assert plain == pytest.approx([-0.625, -0.125, 0.375, 0.375])
    assert scaled == pytest.approx([value / 0.414578 for value in plain], rel=1e-4)


def test_an_answer_without_an_advantage_is_left_out() -> None:
    samples = samples_of([group("ab", [0.0, 0.5, 1.0])], scale_rewards=True)
    assert [sum(one.assistant_mask) for one in samples] == [1, 3]


def test_groups_with_one_prompt_are_still_two() -> None:
    groups = [group("ab", [0.0, 1.0]), group("ab", [0.0, 1.0])]
    samples = samples_of(groups, scale_rewards=True)
    assert len({one.prompt_id for one in samples}) == 2


def shown(prompt: str, answer: str) -> art.Trajectory:
    messages: Any = [{"role": "user", "content": prompt}, {"role": "assistant", "content": answer}]
    return art.Trajectory(messages_and_choices=messages)


def test_an_answer_to_imitate_is_its_own_tokens_and_its_end() -> None:
    (one,) = tokenize_demonstrations([shown("ab", "yz")], Tokenizer(), 100)
    assert one.token_ids == [1, ord("a"), ord("b"), 2, ord("y"), ord("z"), 9]
    assert one.assistant_mask == [0, 0, 0, 0, 1, 1, 1]
    assert one.advantage == 1.0


def test_an_answer_that_vllm_could_not_have_written_is_not_imitated() -> None:
    given = [shown("ab", "y" * 50), shown("ab", "y")]
    (one,) = tokenize_demonstrations(given, Tokenizer(), 10)
    assert len(one.token_ids) == 6


def test_answers_to_one_prompt_share_it() -> None:
    one, other = tokenize_demonstrations([shown("ab", "y"), shown("ab", "z")], Tokenizer(), 100)
    assert one.prompt_id == other.prompt_id
    assert one.prompt_length == 3


def test_an_own_answer_to_imitate_is_what_was_sampled() -> None:
    messages: Any = [{"role": "user", "content": "ab"}]
    own = art.Trajectory(messages_and_choices=[*messages, choice("ab", 1)])
    (one,) = tokenize_demonstrations([own], Tokenizer(), 100)
    assert one.token_ids == [1, ord("a"), ord("b"), 2, 500, 501]
