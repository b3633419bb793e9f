"""Trajectories as tokens, with their advantages.

Rollouts are exactly the tokens that the engine read and sampled; only what others wrote, to be
imitated, is tokenized here.
"""

import json
import math
import statistics
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import art
import numpy as np
from openai.types.chat.chat_completion import Choice

from precis.errors import TrainerError
from precis.records.samples import Sampled, TokenSequence, join_calls, sampled_in, tokens_of
from precis.records.warm_start import is_imitated

_TINY = 1e-6
"""ART's own, against a division by nothing."""


@dataclass(frozen=True)
class TrainingSample:
    """Prompt and answer as tokens, or the prompts and answers of several turns.

    Attributes:
        token_ids: of all of it.
        assistant_mask: 1 where a token was sampled.
        logprobs: of each sampled token under the policy that sampled it; NaN elsewhere.
        advantage: its reward relative to the group's mean.
        prompt_id: equal for samples of one prompt.
        prompt_length: the number of tokens that it shares with the others of that prompt.
    """

    token_ids: list[int]
    assistant_mask: list[int]
    logprobs: list[float]
    advantage: float
    prompt_id: Hashable
    prompt_length: int

    @property
    def trained(self) -> int:
        """The number of tokens that were sampled."""
        return sum(self.assistant_mask)


def divide(samples: Sequence[TrainingSample], count: int) -> Iterator[Sequence[TrainingSample]]:
    """Yield the samples in so many parts of about the same size; fewer where there are fewer
    samples."""
    for part in np.array_split(np.arange(len(samples)), min(count, len(samples))):
        yield samples[part[0] : part[-1] + 1]


def token_weight(samples: Sequence[TrainingSample]) -> float:
    """Return the weight in the loss of each sampled token of some samples; all add up to 1, and
    each counts the same (DAPO)."""
    return 1 / sum(sample.trained for sample in samples)


def count_updates(groups: Sequence[art.TrajectoryGroup], trajectories_each: int) -> int:
    """Return how often the optimizer moves in a step, for so many trajectories each time."""
    trajectories = sum(len(group.trajectories) for group in groups)
    return max(1, round(trajectories / trajectories_each))


def samples_of(
    groups: Sequence[art.TrajectoryGroup], *, scale_rewards: bool
) -> list[TrainingSample]:
    """Return the samples of a step that have an advantage, those of one prompt side by side.

    Their tokens are those that the engine read and sampled. A trajectory makes one sample, or more
    where a call did not continue the one before; all have its advantage.

    Args:
        scale_rewards: divide advantages by the spread of their group's rewards.

    Raises:
        TrainerError: a choice carries no token ids.
    """
    samples: list[TrainingSample] = []
    for number, group in enumerate(groups):
        rewards = [one.reward for one in group.trajectories]
        mean = statistics.fmean(rewards)
        spread = statistics.pstdev(rewards) + _TINY if scale_rewards else 1.0
        for trajectory in group.trajectories:
            advantage = (trajectory.reward - mean) / spread
            if advantage:
                sequences = join_calls(sampled_in(trajectory))
                samples += _samples_of(sequences, advantage, number)
    return samples


def tokenize_demonstrations(
    trajectories: Iterable[art.Trajectory], tokenizer: Any, tokens_max: int
) -> list[list[TrainingSample]]:
    """Return each trajectory's answers to imitate, each with its end, as samples.

    An answer whose prompt begins with the answer before it continues that one's sample. Answers
    that are too long are left out, and so are trajectories without another.

    Args:
        tokens_max: longest prompt and answer together, in tokens.

    Raises:
        TrainerError: the chat template can't say an answer's tool calls, or all are too long.
    """
    shown = []
    for trajectory in trajectories:
        answers = []
        histories: list[Any] = [trajectory, *trajectory.additional_histories]
        for history in histories:
            answers += _tokenize_answers(history, tokenizer)
        fitting = [one for one in answers if len(one.prompt_ids) + len(one.token_ids) <= tokens_max]
        sequences = join_calls(fitting)
        if sequences:
            shown.append(_samples_of(sequences, advantage=1.0, group=None))
    if not shown:
        raise TrainerError(
            f"Each answer of the demonstrations has more than {tokens_max} tokens with its prompt: "
            "raise the trainer's tokens_max."
        )
    return shown


def for_template(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message as vLLM gives it to a chat template: its parts are one text, which is there
    even if it is empty, and the arguments of calls are objects."""
    content = message.get("content") or ""
    if not isinstance(content, str):
        content = "\n".join(part["text"] for part in content)
    read = {**message, "content": content}
    calls = []
    for call in message.get("tool_calls") or ():
        function = dict(call["function"])
        with suppress(ValueError, TypeError):  # what the policy has sampled may be no JSON
            function["arguments"] = json.loads(function["arguments"])
        calls.append({**call, "function": function})
    if calls:
        read["tool_calls"] = calls
    return read


def _tokenize_answers(history: Any, tokenizer: Any) -> list[Sampled]:
    """Return prompt and tokens of each answer to imitate: those that were sampled, or those of
    another's answer and its end. Log probabilities are not known."""
    end: int = tokenizer.eos_token_id
    answers = []
    messages: list[dict[str, Any]] = []
    for item in history.messages_and_choices:
        message = item.message.model_dump(exclude_none=True) if isinstance(item, Choice) else item
        read = for_template(message)
        if is_imitated(message):
            prompt = _render(tokenizer, messages, history.tools)
            if isinstance(item, Choice):
                ids = list(tokens_of(item).token_ids)
            elif read.get("tool_calls"):
                shown = [*messages, read]
                whole = _render(tokenizer, shown, history.tools, add_generation_prompt=False)
                ids = whole[len(prompt) :]
                if whole[: len(prompt)] != prompt or end not in ids:
                    raise TrainerError(
                        "The chat template of the base model writes a tool call elsewhere than "
                        "after its prompt, so that demonstrations with tool calls can't be "
                        "imitated.",
                        "Take a base model whose template knows tools, or leave warm_start out.",
                    )
                ids = ids[: ids.index(end) + 1]
            else:
                text = str(read["content"])
                ids = [*tokenizer(text, add_special_tokens=False)["input_ids"], end]
            answers.append(Sampled(prompt, ids, [math.nan] * len(ids)))
        messages.append(read)
    return answers


def _render(
    tokenizer: Any, messages: list[Any], tools: Any, add_generation_prompt: bool = True
) -> list[int]:
    # Each tool with its keys in the order in which vLLM's request model writes them: ART's type has
    # `function` before `type`, and a template writes them as they come.
    declared = []
    for tool in tools or ():
        function = tool["function"]
        ordered = {}
        for name in ("name", "description", "parameters"):
            if name in function:
                ordered[name] = function[name]
        declared.append({"type": "function", "function": {**ordered, **function}})
    options = {"tools": declared} if declared else {}
    ids: list[int] = tokenizer.apply_chat_template(
        messages, add_generation_prompt=add_generation_prompt, return_dict=False, **options
    )
    return ids


def _samples_of(
    sequences: Sequence[TokenSequence], advantage: float, group: Hashable
) -> list[TrainingSample]:
    """Return the sequences of a trajectory as samples. Those of one group with the same prompt
    share the value of `group`."""
    samples = []
    for sequence in sequences:
        prompt = tuple(sequence.token_ids[: sequence.prompt_length])
        samples.append(
            TrainingSample(
                token_ids=sequence.token_ids,
                assistant_mask=sequence.mask,
                logprobs=sequence.logprobs,
                advantage=advantage,
                prompt_id=(group, prompt),
                prompt_length=len(prompt) - 1,  # its last token predicts the first of each answer
            )
        )
    return samples
