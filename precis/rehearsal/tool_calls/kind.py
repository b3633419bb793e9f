"""The policy kind that picks tool calls."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from precis.errors import TrainerError
from precis.llm.server import ApiError, ChatRequest, Choice, callable_tools
from precis.records.rollout import parsed_calls
from precis.records.samples import tokens_of
from precis.records.warm_start import is_imitated
from precis.rehearsal.endpoint import generator_of, logprob_entries, message_id, prompt_ids
from precis.rehearsal.kind import Batch, Floats, Layout, LinearPolicy, Trajectory
from precis.rehearsal.tool_calls.features import WEIGHTS, Seen, see
from precis.rehearsal.tool_calls.options import Message, Option, list_options
from precis.settings.trainer import TOOL_CALL_FEATURES


@dataclass(frozen=True, eq=False)
class CallSample:
    """One call of a rollout: the features of its options, and the picked one with its token and log
    probability."""

    seen: Seen
    picks: tuple[int]
    token: int
    logprob: float
    reward: float
    prompt: tuple[int, ...]

    @property
    def order(self) -> tuple[tuple[int, ...], int, float]:
        return self.prompt, self.token, self.reward


@dataclass(frozen=True, eq=False, kw_only=True)
class CallBatch(Batch):
    """A batch of calls; `seen` has the features of each call's options."""

    seen: Sequence[Seen]

    # Call by call: a grid of all would take gigabytes.
    def scores(self, weights: Floats) -> Floats:
        scores = np.zeros((len(self.seen), self.masks.shape[2]))
        for row, one in enumerate(self.seen):
            scores[row, : len(one.features)] = one.scores(weights)
        return scores

    def gradient(self, by_score: Floats) -> Floats:
        gradient = np.zeros(WEIGHTS)
        for row, one in enumerate(self.seen):
            spread = by_score[row, : len(one.features), None] * one.shares
            np.add.at(gradient, one.features.ravel(), spread.ravel())
        return gradient


class ToolCallPicks:
    """Answers with one of the calls that the request allows; each is a token."""

    layout = Layout("tool_calls", TOOL_CALL_FEATURES, WEIGHTS)

    def answer(self, policy: LinearPolicy, asked: ChatRequest) -> list[Choice]:
        options, seen = _look(asked.messages, callable_tools(asked.tools, asked.tool_choice))
        scores = seen.scores(policy.weights)
        shifted = scores - scores.max()
        logprobs: Floats = shifted - np.log(np.exp(shifted).sum())
        generator = generator_of(asked)
        choices = []
        for _ in range(asked.n):
            if asked.temperature > 0:
                noise = generator.gumbel(size=len(options))
                picked = int(np.argmax(logprobs / asked.temperature + noise))
            else:
                texts = [f"{one.name}{one.content}" for one in options]
                picked = int(policy.rank(logprobs, texts)[0])
            option = options[picked]
            entries = logprob_entries([option.token], [float(logprobs[picked])])
            choice = replace(
                option.answer(asked.messages),
                logprobs=entries if asked.logprobs else None,
                token_ids=[option.token] if asked.return_token_ids else None,
            )
            choices.append(choice)
        return choices

    def samples_of(self, trajectory: Trajectory) -> list[CallSample]:
        samples = []
        for before, tools, item in _answers(trajectory):
            if not isinstance(item, Mapping):
                sampled = tokens_of(item)
                token, logprob = sampled.token_ids[0], sampled.logprobs[0]
                reward = float(trajectory.reward)
                samples.append(sample_of(before, tools, token, logprob, reward))
        return samples

    def demonstrations_of(self, trajectory: Trajectory) -> list[CallSample]:
        samples = []
        for before, tools, item in _answers(trajectory):
            message = _message(item)
            if is_imitated(message):
                token = _token_shown(message, _trained_on(before, tools)[0])
                samples.append(sample_of(before, tools, token, 0.0, 0.0))
        return samples

    def batch_of(self, samples: Sequence[CallSample], advantages: Sequence[float]) -> CallBatch:
        count = len(samples)
        seen = [sample.seen for sample in samples]
        options = np.array([len(one.features) for one in seen])
        return CallBatch(
            masks=np.arange(options.max()) < options[:, None, None],
            picks=np.array([sample.picks for sample in samples]),
            valid=np.ones((count, 1), dtype=np.bool_),
            logprobs=np.array([[sample.logprob] for sample in samples]),
            advantages=np.array(advantages),
            seen=seen,
        )

    def count_tokens(self, samples: Sequence[CallSample]) -> float:
        """Return the number of calls."""
        return float(len(samples))


TOOL_CALLS = ToolCallPicks()


def _answers(trajectory: Trajectory) -> list[tuple[list[Message], Sequence[Any], Any]]:
    """Return the assistant's answers, each with the messages before it and its tools."""
    answers = []
    histories: list[Any] = [trajectory, *trajectory.additional_histories]
    for history in histories:
        messages: list[Message] = []
        for item in history.messages_and_choices:
            message = _message(item)
            if message["role"] == "assistant":
                answers.append((list(messages), history.tools or (), item))
            messages.append(message)
    return answers


def _message(item: Any) -> Message:
    """Return a message of a trajectory; the policy's own are OpenAI's choices."""
    if isinstance(item, Mapping):
        return dict(item)
    message: Message = item.message.model_dump(exclude_none=True)
    return message


def _token_shown(message: Message, options: Sequence[Option]) -> int:
    """Return the token of an answer, independent of the spelling of its call's arguments."""
    calls = parsed_calls(message)
    for option in options:
        if option.name and calls == [(option.name, json.loads(option.content))]:
            return option.token
    return message_id(message)


def _look(messages: Sequence[Message], tools: Sequence[Any]) -> tuple[Sequence[Option], Seen]:
    """Return the options of a request and their features; cached, for other rollouts with the same
    request and for training. Raises ApiError like `list_options`."""
    said = []
    for message in messages:
        calls = [{"function": one.get("function")} for one in message.get("tool_calls") or ()]
        role = message.get("role")
        said.append({"role": role, "content": message.get("content"), "tool_calls": calls})
    return _look_at(json.dumps([said, list(tools)]))


@lru_cache(maxsize=512)  # a step of a rehearsal has a few hundred
def _look_at(request: str) -> tuple[Sequence[Option], Seen]:
    messages, tools = json.loads(request)
    options = list_options(messages, tools)
    return options, see(messages, options)


def _trained_on(before: Sequence[Message], tools: Sequence[Any]) -> tuple[Sequence[Option], Seen]:
    try:
        return _look(before, tools)
    except ApiError as error:
        raise TrainerError(f"A call can't be learned from: {error}") from error


def sample_of(
    before: Sequence[Message], tools: Sequence[Any], token: int, logprob: float, reward: float
) -> CallSample:
    """Return the sample of a call, given by its token, that answers some messages. Raises
    TrainerError if the request does not allow it."""
    options, seen = _trained_on(before, tools)
    tokens = [one.token for one in options]
    if token not in tokens:
        raise TrainerError(
            f"An answer is none of the {len(options)} that its request allows: the embedded "
            "policy can only learn to make such calls."
        )
    return CallSample(
        seen,
        (tokens.index(token),),
        token,
        logprob,
        reward,
        tuple(prompt_ids(before, tools)),
    )
