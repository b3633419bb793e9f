"""OpenPipe: every call of a rollout as a reported call.

Its reporting API is `POST {base}/report` with request, response, times and metadata of one call
(https://docs.openpipe.ai, "Report"; the same as its Python client's).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import httpx

from precis.environment import Variables
from precis.observe.rollouts import RolloutRecord
from precis.observe.sender import post


@dataclass(frozen=True)
class OpenPipe:
    """The address of OpenPipe, and its key."""

    name: ClassVar[str] = "OpenPipe"
    url: str
    key: str = field(repr=False)

    @classmethod
    def from_environment(cls, environment: Variables) -> Self | None:
        key = environment.openpipe_api_key
        return cls(environment.openpipe_base_url, key.get_secret_value()) if key else None

    @property
    def options(self) -> Mapping[str, Any]:
        return {"headers": {"Authorization": f"Bearer {self.key}"}}

    async def send(self, client: httpx.AsyncClient, batch: Sequence[RolloutRecord]) -> None:
        for seen in batch:
            for turn in range(len(seen.calls)):
                await post(client, f"{self.url.rstrip('/')}/report", _report(seen, turn))


def _report(seen: RolloutRecord, turn: int) -> dict[str, Any]:
    call = seen.calls[turn]
    ended_at = call.asked_at + call.seconds
    usage = call.usage
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
            "usage": {
                "prompt_tokens": usage.prompt_tokens,
                "completion_tokens": usage.completion_tokens,
                "total_tokens": usage.prompt_tokens + usage.completion_tokens,
            },
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
