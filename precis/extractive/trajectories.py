"""From ART's trajectories to samples: the sentence ids in a choice's logprobs are its picks."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import art
from openai.types.chat.chat_completion import Choice

from precis.errors import TrainerError
from precis.extractive.features import Features, featurize
from precis.extractive.policy import TOKEN_PREFIX
from precis.extractive.samples import PickedSample
from precis.summaries.prompt import request_in


def samples_of(group: art.TrajectoryGroup) -> list[PickedSample]:
    """The samples of a group, one for each trajectory.

    Raises:
        RolloutError: the messages before a choice hold no document.
        TrainerError: a trajectory has no choice, or one without usable logprobs.
    """
    return list(map(sample_of, group.trajectories))


def sample_of(trajectory: art.Trajectory) -> PickedSample:
    """The sample that a trajectory's last choice is.

    Raises:
        RolloutError: the messages before it hold no document.
        TrainerError: there is no choice, or one without usable logprobs.
    """
    items = trajectory.messages_and_choices
    at = next((n for n in reversed(range(len(items))) if isinstance(items[n], Choice)), None)
    if at is None:
        raise TrainerError(
            "A trajectory has no choice to learn from: append the completion's choice itself to "
            "messages_and_choices, not its text."
        )
    choice = items[at]
    assert isinstance(choice, Choice)
    request = request_in(_messages(items[:at]))
    features = featurize(request.text)
    picks, logprobs = _picks(choice)
    _check(picks, features, request.words_max)
    if not math.isfinite(trajectory.reward):
        raise TrainerError(
            f"A trajectory's reward is {trajectory.reward}: leave a summary that could not be "
            "judged out of its group."
        )
    return PickedSample(features, request.words_max, picks, logprobs, float(trajectory.reward))


def _messages(items: Sequence[Any]) -> list[Mapping[str, Any]]:
    return [item for item in items if isinstance(item, Mapping)]


def _picks(choice: Choice) -> tuple[tuple[int, ...], tuple[float, ...]]:
    entries = choice.logprobs.content if choice.logprobs else None
    if entries is None or not all(entry.token.startswith(TOKEN_PREFIX) for entry in entries):
        raise TrainerError(
            "A choice carries no sentence ids: sample from the embedded policy's own endpoint, "
            "and ask for logprobs=True."
        )
    ids = tuple(int(entry.token.removeprefix(TOKEN_PREFIX)) for entry in entries)
    return ids, tuple(entry.logprob for entry in entries)


def _check(picks: Sequence[int], features: Features, words_max: int) -> None:
    known = set(range(len(features.words)))
    fits = set(picks) <= known and int(features.words[list(picks)].sum()) <= words_max
    if not fits or len(set(picks)) < len(picks):
        raise TrainerError(
            f"The sentence ids {list(picks)} can't be picks from a document of {len(known)} "
            f"sentences within {words_max} words: the trajectory's messages were changed."
        )
