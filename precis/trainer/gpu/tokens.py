"""Trajectories as tokens: exactly those that the policy read and wrote, with their advantages."""

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import art
from openai.types.chat.chat_completion import Choice

from precis.trainer.gpu.packing import Sample

_MARK = "token_id:"
"""vLLM gives the id of each token that it sampled behind this, in place of its text."""
_TINY = 1e-6
"""ART's own, against a division by nothing."""


def tokenize_groups(
    groups: Sequence[art.TrajectoryGroup], tokenizer: Any, *, scale_rewards: bool
) -> list[Sample]:
    """The samples of a step that have an advantage, those of one prompt next to each other.

    A trajectory that ends in its only answer is read from what vLLM has sampled, and its prompt is
    tokenized once for the group. Others, of several turns, are ART's to tokenize.

    Args:
        scale_rewards: divide advantages by the spread of their group's rewards.
    """
    samples: list[Sample] = []
    for number, group in enumerate(groups):
        if all(map(_is_one_answer, group.trajectories)):
            samples += _tokenize_answers(group, number, tokenizer, scale_rewards)
        else:
            samples += _tokenize_turns(group, tokenizer, scale_rewards)
    return samples


def tokenize_demonstrations(
    trajectories: Iterable[art.Trajectory], tokenizer: Any, tokens_max: int
) -> list[Sample]:
    """Answers to imitate, each with its end; those that are too long are left out.

    Args:
        trajectories: their last message is the answer.
        tokens_max: longest prompt and answer together, in tokens.
    """
    samples = []
    for trajectory in trajectories:
        messages: list[Any] = trajectory.messages_and_choices[:-1]
        prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True)
        answer = _tokenize_answer(trajectory, tokenizer)
        sample = Sample(
            token_ids=[*prompt, *answer],
            assistant_mask=[0] * len(prompt) + [1] * len(answer),
            logprobs=[math.nan] * (len(prompt) + len(answer)),  # nobody has sampled it
            advantage=1.0,
            prompt_id=repr(messages),
            prompt_length=len(prompt) - 1,
        )
        if len(sample.token_ids) <= tokens_max:
            samples.append(sample)
    return samples


def _tokenize_answer(trajectory: art.Trajectory, tokenizer: Any) -> list[int]:
    """What vLLM has sampled, where it did; of another's answer the text and its end."""
    last = trajectory.messages_and_choices[-1]
    if isinstance(last, Choice) and last.logprobs is not None:
        return [int(one.token.removeprefix(_MARK)) for one in last.logprobs.content or ()]
    text = str(trajectory.messages()[-1].get("content"))
    tokens: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return [*tokens, tokenizer.eos_token_id]


def _is_one_answer(trajectory: art.Trajectory) -> bool:
    *before, last = trajectory.messages_and_choices
    return (
        isinstance(last, Choice)
        and all(isinstance(message, dict) for message in before)
        and not trajectory.tools
        and not trajectory.additional_histories
    )


def _tokenize_answers(
    group: art.TrajectoryGroup, number: int, tokenizer: Any, scale_rewards: bool
) -> Iterator[Sample]:
    prompts: dict[str, list[int]] = {}
    advantages = _advantages([one.reward for one in group.trajectories], scale_rewards)
    for trajectory, advantage in zip(group.trajectories, advantages, strict=True):
        if not advantage:
            continue
        messages: list[Any] = trajectory.messages_and_choices[:-1]
        choice: Any = trajectory.messages_and_choices[-1]
        key = repr(messages)
        if key not in prompts:
            prompts[key] = tokenizer.apply_chat_template(messages, add_generation_prompt=True)
        prompt = prompts[key]
        sampled = choice.logprobs.content
        yield Sample(
            token_ids=[*prompt, *(int(one.token.removeprefix(_MARK)) for one in sampled)],
            assistant_mask=[0] * len(prompt) + [1] * len(sampled),
            logprobs=[math.nan] * len(prompt) + [one.logprob for one in sampled],
            advantage=advantage,
            prompt_id=(number, key),
            prompt_length=len(prompt) - 1,  # its last token predicts the first of each answer
        )


def _advantages(rewards: Sequence[float], scale_rewards: bool) -> list[float]:
    mean = statistics.fmean(rewards)
    spread = statistics.pstdev(rewards) + _TINY if scale_rewards else 1.0
    return [(reward - mean) / spread for reward in rewards]


def _tokenize_turns(
    group: art.TrajectoryGroup, tokenizer: Any, scale_rewards: bool
) -> list[Sample]:
    from art.preprocessing.tokenize import tokenize_trajectory_groups  # torch

    tokenized = tokenize_trajectory_groups(
        tokenizer,
        [group],
        allow_training_without_logprobs=False,
        scale_rewards=scale_rewards,
        shuffle_group_trajectories=False,
    )
    samples = []
    for one in tokenized:
        samples.append(
            Sample(
                token_ids=one.token_ids,
                assistant_mask=one.assistant_mask,
                logprobs=one.logprobs,
                advantage=one.advantage,
                prompt_id=one.prompt_id,
                prompt_length=one.prompt_length,
            )
        )
    return samples
