"""Weave: every completion as a completed call.

Over its HTTP API (`POST /v2/{entity}/{project}/calls/complete`, the path that its own client
takes), not through its package: that one patches the OpenAI clients of the whole process when it
is initialised, keeps threads of its own, and takes seconds to import.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import httpx

from precis.environment import Environment
from precis.observe.completions import CompletionRecord
from precis.observe.sender import post


@dataclass(frozen=True)
class Weave:
    """Where Weave is, the project as `entity/project`, and the key of W&B."""

    url: str
    project: str
    key: str = field(repr=False)

    @property
    def name(self) -> str:
        return "Weave"

    @classmethod
    def from_environment(cls, environment: Environment) -> Self | None:
        key = environment.wandb_api_key
        project = environment.weave_project
        if key is None or project is None:
            return None
        return cls(environment.weave_url.rstrip("/"), project, key.get_secret_value())

    @property
    def options(self) -> Mapping[str, Any]:
        return {"auth": ("api", self.key)}

    async def send(self, client: httpx.AsyncClient, batch: Sequence[CompletionRecord]) -> None:
        calls = {"batch": [_call(seen, self.project) for seen in batch]}
        address = f"{self.url}/v2/{self.project}/calls/complete"
        await post(client, address, calls)


def _call(seen: CompletionRecord, project: str) -> dict[str, Any]:
    usage = {
        "requests": 1,
        "prompt_tokens": seen.prompt_tokens,
        "completion_tokens": seen.completion_tokens,
        "total_tokens": seen.prompt_tokens + seen.completion_tokens,
    }
    return {
        "project_id": project,
        "id": seen.id,
        "trace_id": seen.id,
        "op_name": "precis.completion",
        "display_name": f"completion by {seen.model}",
        "thread_id": seen.run,
        "started_at": seen.began.isoformat(),
        "ended_at": seen.ended.isoformat(),
        "attributes": {"run": seen.run, **seen.notes},
        "inputs": {
            "model": seen.model,
            "messages": list(seen.messages),
            **seen.parameters,
        },
        "output": {"text": seen.text, "finish": seen.finish, "scores": dict(seen.scores)},
        "summary": {"usage": {seen.model: usage}, "status_counts": {"success": 1, "error": 0}},
    }
