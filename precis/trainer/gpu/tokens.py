"""Trajectories as tokens, with their advantages.

Rollouts are exactly the tokens that the engine read and sampled; only what others wrote, to be
imitated, is tokenized here.
"""

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import art
from openai.types.chat.chat_completion import Choice

from precis.records.samples import join_calls, sampled_in, tokens_of
from precis.trainer.gpu.packing import Sample

_TINY = 1e-6
"""ART's own, against a division by nothing."""


def samples_of(groups: Sequence[art.TrajectoryGroup], *, scale_rewards: bool) -> list[Sample]:
    """Return the samples of a step that have an advantage, those of one prompt side by side.

    Their tokens are those that the engine read and sampled. A trajectory makes one sample, or more
    where a call did not continue the one before; all have its advantage.

    Args:
        scale_rewards: divide advantages by the spread of their group's rewards.

    Raises:
        TrainerError: a choice carries no token ids.
    """
    samples: list[Sample] = []
    for number, group in enumerate(groups):
        advantages = _advantages([one.reward for one in group.trajectories], scale_rewards)
        for trajectory, advantage in zip(group.trajectories, advantages, strict=True):
            if advantage:
                samples += _samples(trajectory, advantage, number)
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
            rollout_tokens=len(answer),
        )
        if len(sample.token_ids) <= tokens_max:
            samples.append(sample)
    return samples


def _tokenize_answer(trajectory: art.Trajectory, tokenizer: Any) -> list[int]:
    """Return the tokens that were sampled, or those of another's answer and its end."""
    last = trajectory.messages_and_choices[-1]
    if isinstance(last, Choice):
        return list(tokens_of(last).token_ids)
    text = str(trajectory.messages()[-1].get("content"))
    tokens: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return [*tokens, tokenizer.eos_token_id]


def _samples(trajectory: art.Trajectory, advantage: float, group: int) -> Iterator[Sample]:
    sequences = join_calls(sampled_in(trajectory))
    trained = sum(sum(one.mask) for one in sequences)
    for sequence in sequences:
        prompt = tuple(sequence.token_ids[: sequence.prompt_length])
        yield Sample(
            token_ids=sequence.token_ids,
            assistant_mask=sequence.mask,
            logprobs=sequence.logprobs,
            advantage=advantage,
            prompt_id=(group, prompt),
            prompt_length=len(prompt) - 1,  # its last token predicts the first of each answer
            rollout_tokens=trained,
        )


def _advantages(rewards: Sequence[float], scale_rewards: bool) -> list[float]:
    mean = statistics.fmean(rewards)
    spread = statistics.pstdev(rewards) + _TINY if scale_rewards else 1.0
    return [(reward - mean) / spread for reward in rewards]
