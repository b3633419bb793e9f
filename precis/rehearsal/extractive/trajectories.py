"""From ART's trajectories to samples: the tokens of a choice are its picks."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from precis.environments.summaries.prompt import request_in
from precis.errors import TrainerError
from precis.records.samples import tokens_of
from precis.rehearsal.extractive.features import featurize
from precis.rehearsal.extractive.samples import PickedSample

if TYPE_CHECKING:
    import art


def sample_of(trajectory: "art.Trajectory") -> PickedSample:
    """Return the sample that a trajectory's last choice is.

    Raises:
        RolloutError, TrainerError: there is no document, or no choice with its tokens.
    """
    from openai.types.chat.chat_completion import Choice  # half a second to import

    items = trajectory.messages_and_choices
    at = next((n for n in reversed(range(len(items))) if isinstance(items[n], Choice)), None)
    if at is None:
        raise TrainerError(
            "A trajectory has no choice to learn from: append the completion's choice itself to "
            "messages_and_choices, not its text."
        )
    choice = items[at]
    assert isinstance(choice, Choice)
    request = request_in([item for item in items[:at] if isinstance(item, Mapping)])
    features = featurize(request.text)
    sampled = tokens_of(choice)
    picks = tuple(sampled.token_ids)
    known = set(range(len(features.words)))
    fits = set(picks) <= known and int(features.words[list(picks)].sum()) <= request.words_max
    if not fits or len(set(picks)) < len(picks):
        raise TrainerError(
            f"The sentence ids {list(picks)} can't be picks from a document of {len(known)} "
            f"sentences within {request.words_max} words: the trajectory's messages were changed."
        )
    if not math.isfinite(trajectory.reward):
        raise TrainerError(
            f"A trajectory's reward is {trajectory.reward}: leave a summary that could not be "
            "judged out of its group."
        )
    logprobs = tuple(sampled.logprobs)
    return PickedSample(features, request.words_max, picks, logprobs, float(trajectory.reward))
