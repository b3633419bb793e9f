"""Weave: every rollout as a completed call, with its model calls nested in it.

By its HTTP API (`POST /v2/{entity}/{project}/calls/complete`, as in its own client), not its
package, which patches the OpenAI clients of the whole process, starts threads, and takes seconds to
import.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import httpx

from precis.environment import Variables
from precis.observe.rollouts import RolloutRecord
from precis.observe.sender import Service, post


def weave(environment: Variables) -> Service | None:
    """Return Weave, if a project and W&B's key are set."""
    project = environment.weave_project
    if environment.wandb_api_key is None or project is None:
        return None
    key = environment.wandb_api_key.get_secret_value()
    url = environment.weave_url.rstrip("/")

    async def send(client: httpx.AsyncClient, batch: Sequence[RolloutRecord]) -> None:
        calls = [call for seen in batch for call in _calls(seen, project)]
        await post(client, f"{url}/v2/{project}/calls/complete", {"batch": calls})

    return Service("Weave", url, key, {"auth": ("api", key)}, send)


def _calls(seen: RolloutRecord, project: str) -> Iterator[dict[str, Any]]:
    """Yield the rollout with its whole conversation and its scores, and each call to the model."""
    shared = {"project_id": project, "trace_id": seen.id, "thread_id": seen.run}
    attributes = {"run": seen.run, **seen.notes}
    counts = {"success": 1, "error": 0}
    yield {
        **shared,
        "id": seen.id,
        "op_name": "precis.rollout",
        "display_name": f"rollout by {seen.model}",
        "started_at": _time(seen.began_at),
        "ended_at": _time(seen.ended_at),
        "attributes": attributes,
        "inputs": {"scenario": seen.notes["scenario"], "messages": list(seen.calls[0].messages)},
        "output": {"conversation": seen.conversation, "scores": dict(seen.scores)},
        "summary": {"status_counts": counts},
    }
    for turn, call in enumerate(seen.calls):
        usage = {"requests": 1, **call.usage.in_response}
        yield {
            **shared,
            "id": seen.call_id(turn),
            "parent_id": seen.id,
            "op_name": "precis.completion",
            "display_name": f"turn {turn + 1}",
            "started_at": _time(call.asked_at),
            "ended_at": _time(call.asked_at + call.seconds),
            "attributes": {**attributes, "turn": str(turn)},
            "inputs": seen.sent(call),
            "output": {"message": dict(call.message), "finish": call.finish},
            "summary": {"usage": {seen.model: usage}, "status_counts": counts},
        }


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()
