"""Groups as ART's types, for its client, its RULER and its parquet."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import art
from art.trajectories import History
from art.utils.trajectory_logging import write_trajectory_groups_parquet
from openai.types.chat.chat_completion import Choice

from precis.environments.conversations import Conversation, conversations_of
from precis.records.rollout import Rollout, Score, Split, Unscored, content_text
from precis.records.samples import with_tokens
from precis.records.trajectories import trajectories_key
from precis.store import Store

_FINISHES = ("stop", "length", "tool_calls", "content_filter", "function_call")
"""The finish reasons of OpenAI's types; vLLM gives others too, such as `abort`."""


def group_of(rollouts: Sequence[Rollout]) -> art.TrajectoryGroup:
    """Return the scored rollouts as a group, with all their samples."""
    scored = [one for one in rollouts if one.reward is not None]
    return art.TrajectoryGroup([trajectory_of(one, one.reward or 0.0) for one in scored])


def trajectory_of(rollout: Rollout, reward: float = 0.0) -> art.Trajectory:
    """Return a rollout as a trajectory: each conversation in it is one of its histories. Its
    choices have their token ids (`precis.records.samples`), or OpenAI's log probabilities if the
    policy's server gives no ids."""
    histories = [_items(one) for one in conversations_of(rollout.calls)] or [([], None)]
    trajectory = art.Trajectory(
        messages_and_choices=histories[0][0],
        tools=histories[0][1],
        reward=reward,
        metrics=dict(rollout.metrics),
        metadata={"scenario_id": rollout.scenario.id, "index": rollout.index},
    )
    for items, tools in histories[1:]:
        # ART's validation would turn each choice into a plain message.
        history = History(messages_and_choices=[], tools=tools)
        history.messages_and_choices = items
        trajectory.additional_histories.append(history)
    return trajectory


def in_texts(group: art.TrajectoryGroup) -> art.TrajectoryGroup:
    """Return a group with each content as text, as ART's parquet needs; it has one conversation a
    rollout."""
    for trajectory in group.trajectories:
        items: list[Any] = trajectory.messages_and_choices
        for place, item in enumerate(items):
            if not isinstance(item, Choice):
                items[place] = {**item, "content": content_text(item.get("content"))}
    return group


def put_trajectories(
    store: Store,
    model: str,
    split: Split,
    step: int,
    groups: Sequence[Sequence[Rollout]],
    policy: str,
) -> None:
    """Write a step's rollouts to the store, under their policy's name; a repeated step replaces
    them. Raises StoreError if the store can't be written."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "groups.parquet"
        told = []
        for group in groups:
            told.append(in_texts(art.TrajectoryGroup([_told(each, policy) for each in group])))
        write_trajectory_groups_parquet(told, file)
        store.put(trajectories_key(model, split, step), file.read_bytes())


def _told(rollout: Rollout, policy: str) -> art.Trajectory:
    """Return a rollout for study. An unscored one has the reward NaN, and the cause in its
    metadata."""
    trajectory = trajectory_of(rollout, math.nan if rollout.reward is None else rollout.reward)
    score = rollout.score
    calls = rollout.calls
    others = []
    for history in trajectory.additional_histories:
        others.append([_message(item) for item in history.messages_and_choices])
    trajectory.metadata |= {
        "policy": policy,
        "calls": len(calls),
        "finish": calls[-1].finish if calls else None,
        "seconds": rollout.seconds,
        "prompt_tokens": rollout.usage.prompt_tokens,
        "completion_tokens": rollout.usage.completion_tokens,
        "success": score.success if isinstance(score, Score) else None,
        "cause": score.cause,
        "detail": score.detail if isinstance(score, Unscored) else None,
        "details": json.dumps(score.details if isinstance(score, Score) else {}),
        "others": json.dumps(others) if others else None,
    }
    return trajectory


def _message(item: Any) -> dict[str, Any]:
    """Return a message, or a choice's message, in the parquet's format."""
    sampled = isinstance(item, Choice)
    message = item.message.to_dict() if sampled else item
    calls = message.get("tool_calls")
    return {
        "role": message["role"],
        "content": content_text(message.get("content")),
        "tool_calls": json.dumps(calls) if calls else None,
        "tool_call_id": message.get("tool_call_id"),
        "trainable": sampled,
    }


def _items(conversation: Conversation) -> tuple[list[Any], list[Any] | None]:
    items: list[Any] = []
    for place, message in enumerate(conversation.messages):
        call = conversation.calls.get(place)
        if call is None:
            items.append(message)
            continue
        choice = {"index": 0, **call.choice}
        if choice.get("finish_reason") not in _FINISHES:
            choice["finish_reason"] = "stop"
        has_ids = bool(call.prompt_ids or call.token_ids)  # an answer may be empty
        items.append(with_tokens(choice, call) if has_ids else Choice.model_validate(choice))
    return items, list(conversation.tools) or None
