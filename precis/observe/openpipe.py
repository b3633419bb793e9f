"""OpenPipe: every completion as a reported call.

Its reporting API is `POST {base}/report` with request, response, times and metadata of one call
(https://docs.openpipe.ai, "Report"; the same that its Python client sends).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import httpx

from precis.environment import Environment
from precis.observe.completions import CompletionRecord
from precis.observe.sender import post


@dataclass(frozen=True)
class OpenPipe:
    """Where OpenPipe is, and its key."""

    url: str
    key: str = field(repr=False)

    @property
    def name(self) -> str:
        return "OpenPipe"

    @classmethod
    def from_environment(cls, environment: Environment) -> Self | None:
        key = environment.openpipe_api_key
        return cls(environment.openpipe_base_url, key.get_secret_value()) if key else None

    @property
    def options(self) -> Mapping[str, Any]:
        return {"headers": {"Authorization": f"Bearer {self.key}"}}

    async def send(self, client: httpx.AsyncClient, batch: Sequence[CompletionRecord]) -> None:
        for seen in batch:
            await post(client, f"{self.url.rstrip('/')}/report", _report(seen))


def _report(seen: CompletionRecord) -> dict[str, Any]:
    scores = {f"score.{name}": f"{value:g}" for name, value in seen.scores.items()}
    return {
        "requestedAt": int(1000 * (seen.ended_at - seen.seconds)),
        "receivedAt": int(1000 * seen.ended_at),
        "reqPayload": {
            "model": seen.model,
            "messages": list(seen.messages),
            **seen.parameters,
        },
        "respPayload": {
            "id": f"chatcmpl-{seen.id}",
            "object": "chat.completion",
            "created": int(seen.ended_at),
            "model": seen.model,
            "choices": [
                {
                    "index": 0,
                    "finish_reason": seen.finish,
                    "message": {"role": "assistant", "content": seen.text},
                    "logprobs": None,
                }
            ],
            "usage": {
                "prompt_tokens": seen.prompt_tokens,
                "completion_tokens": seen.completion_tokens,
                "total_tokens": seen.prompt_tokens + seen.completion_tokens,
            },
        },
        "statusCode": 200,
        # Metadata are strings; one id a completion lets a report that came twice be told.
        "metadata": {"id": seen.id, "run": seen.run, **seen.notes, **scores},
    }
