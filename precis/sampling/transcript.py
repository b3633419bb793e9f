"""A step's rollouts as ART's trajectory groups, with all that a person would want to study.

The groups that are trained on hold only what training needs, and only what is trained on; here
is every rollout, the unscored and those of dropped groups too.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import art

from precis.judge import Ranked, Scored, Unscored, Verdict
from precis.sampling.rollouts import Rollout


def transcript(rollouts: Sequence[Sequence[Rollout]], policy: str) -> list[art.TrajectoryGroup]:
    """A group for each document, in their order, with each of its rollouts.

    A summary without a verdict has the reward NaN, since ART's type knows no missing one; its
    metadata says why.

    Args:
        policy: the name that the rollouts were asked of, such as `rehearsal@7`.
    """
    groups = []
    for row in rollouts:
        groups.append(art.TrajectoryGroup([_trajectory(one, policy) for one in row]))
    return groups


def _trajectory(rollout: Rollout, policy: str) -> art.Trajectory:
    conversation: list[Any] = [*rollout.conversation]
    earned = rollout.reward
    return art.Trajectory(
        messages_and_choices=conversation,
        reward=math.nan if earned is None else earned,
        metrics=_metrics(rollout),
        metadata={
            "scenario_id": rollout.document.id,
            "topic": rollout.document.topic,
            "index": rollout.index,
            "policy": policy,
            "finish": rollout.summary.finish if rollout.summary else None,
            "disqualified": rollout.disqualified,
            **_ruling(rollout.verdict),
        },
    )


def _metrics(rollout: Rollout) -> dict[str, float | int | bool]:
    metrics: dict[str, float | int | bool] = {"words": rollout.words}
    if isinstance(rollout.verdict, Scored):
        metrics["correct"] = rollout.verdict.correct
        metrics["asked"] = rollout.verdict.asked
    if isinstance(rollout.second, Scored):
        metrics["second_correct"] = rollout.second.correct
    summary = rollout.summary
    if summary is not None:
        metrics["prose"] = rollout.prose
        metrics["seconds"] = summary.seconds or 0.0
        metrics["prompt_tokens"] = summary.prompt_tokens or 0
        metrics["completion_tokens"] = summary.completion_tokens or 0
    return metrics


def _ruling(verdict: Verdict) -> Mapping[str, str | None]:
    if isinstance(verdict, Unscored):
        return {"verdict": "unscored", "cause": verdict.cause, "detail": verdict.detail}
    if isinstance(verdict, Ranked):
        return {"verdict": "ranked"}
    answers = json.dumps(list(map(asdict, verdict.answers)), ensure_ascii=False)
    return {"verdict": "scored", "answers": answers}
