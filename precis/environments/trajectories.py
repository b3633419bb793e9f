"""Groups as ART has them: for its client, its RULER and its parquet."""

import json
import math
from collections.abc import Sequence
from typing import Any

import art
from openai.types.chat.chat_completion import Choice

from precis.records.rollout import Call, Rollout, Score, Unscored

TOKEN_PREFIX = "token_id:"
"""Before a token's id, where it stands in place of the token's text."""


def group_of(rollouts: Sequence[Rollout]) -> art.TrajectoryGroup:
    """The rollouts that have a score, with what each has sampled."""
    trajectories = []
    for one in rollouts:
        if one.reward is not None:
            trajectories.append(trajectory_of(one, one.reward))
    return art.TrajectoryGroup(trajectories)


def trajectory_of(rollout: Rollout, reward: float = 0.0) -> art.Trajectory:
    """A rollout's last conversation, each answer in it as the policy's choice.

    Earlier calls that the last one does not begin with are not part of it.
    """
    conversation: list[Any] = []
    tools: Any = None
    if rollout.calls:
        last = rollout.calls[-1]
        conversation = [*last.messages, choice_of(last)]
        tools = list(last.tools) or None
        for call in rollout.calls[:-1]:
            place = len(call.messages)
            is_there = len(last.messages) > place and last.messages[:place] == call.messages
            if is_there and last.messages[place].get("role") == "assistant":
                conversation[place] = choice_of(call)
    return art.Trajectory(
        messages_and_choices=conversation,
        tools=tools,
        reward=reward,
        metrics=dict(rollout.metrics),
        metadata={"scenario_id": rollout.scenario.id, "index": rollout.index},
    )


def transcript(groups: Sequence[Sequence[Rollout]], policy: str) -> list[art.TrajectoryGroup]:
    """All rollouts as groups for a person to study, those without a score too.

    One without a score has the reward NaN, since ART's type knows no missing one; its metadata
    says why.

    Args:
        policy: the name that the rollouts were asked of, such as `rehearsal@7`.
    """
    told = []
    for group in groups:
        told.append(art.TrajectoryGroup([_told(rollout, policy) for rollout in group]))
    return told


def _told(rollout: Rollout, policy: str) -> art.Trajectory:
    trajectory = trajectory_of(rollout, math.nan if rollout.reward is None else rollout.reward)
    score = rollout.score
    calls = rollout.calls
    trajectory.metadata |= {
        "policy": policy,
        "calls": len(calls),
        "finish": calls[-1].finish if calls else None,
        "seconds": sum(call.seconds for call in calls),
        "prompt_tokens": sum(call.usage.prompt_tokens for call in calls),
        "completion_tokens": sum(call.usage.completion_tokens for call in calls),
        "success": score.success if isinstance(score, Score) else None,
        "cause": score.cause,
        "detail": score.detail if isinstance(score, Unscored) else None,
        "details": json.dumps(score.details if isinstance(score, Score) else {}),
    }
    return trajectory


def choice_of(call: Call) -> Choice:
    """OpenAI's choice, with the sampled tokens by their ids."""
    content = []
    for token_id, logprob in zip(call.token_ids, call.logprobs, strict=True):
        token = f"{TOKEN_PREFIX}{token_id}"
        content.append({"token": token, "logprob": logprob, "top_logprobs": []})
    given = {"index": 0, "finish_reason": "stop", **call.choice}
    if call.token_ids:
        given["logprobs"] = {"content": content}
    return Choice.model_validate(given)
