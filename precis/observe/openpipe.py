"""OpenPipe: every call of a rollout as a reported call.

Its reporting API is `POST {base}/report` with request, response, times and metadata of one call
(https://docs.openpipe.ai, "Report"; the same as its Python client's).
"""

from collections.abc import Sequence
from typing import Any

import httpx

from precis.environment import Variables
from precis.observe.rollouts import RolloutRecord
from precis.observe.sender import Service, post


def openpipe(environment: Variables) -> Service | None:
    """Return OpenPipe, if its key is set."""
    if environment.openpipe_api_key is None:
        return None
    key = environment.openpipe_api_key.get_secret_value()
    url = environment.openpipe_base_url.rstrip("/")

    async def send(client: httpx.AsyncClient, batch: Sequence[RolloutRecord]) -> None:
        for seen in batch:
            for turn in range(len(seen.calls)):
                await post(client, f"{url}/report", _report(seen, turn))

    return Service("OpenPipe", url, key, {"headers": {"Authorization": f"Bearer {key}"}}, send)


def _report(seen: RolloutRecord, turn: int) -> dict[str, Any]:
    call = seen.calls[turn]
    ended_at = call.asked_at + call.seconds
    scores = {f"score.{name}": f"{value:g}" for name, value in seen.scores.items()}
    return {
        "requestedAt": int(1000 * call.asked_at),
        "receivedAt": int(1000 * ended_at),
        "reqPayload": seen.sent(call),
        "respPayload": {
            "id": f"chatcmpl-{seen.call_id(turn)}",
            "object": "chat.completion",
            "created": int(ended_at),
            "model": seen.model,
            "choices": [
                {
                    "index": 0,
                    "finish_reason": call.finish,
                    "message": {"role": "assistant", **call.message},
                    "logprobs": None,
                }
            ],
            "usage": call.usage.in_response,
        },
        "statusCode": 200,
        # Metadata are strings; an id per call identifies duplicate reports.
        "metadata": {
            "id": seen.call_id(turn),
            "rollout": seen.id,
            "turn": str(turn),
            "run": seen.run,
            **seen.notes,
            **scores,
        },
    }
