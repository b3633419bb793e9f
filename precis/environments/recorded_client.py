"""OpenAI's client for agents."""

import json
from typing import Any

import httpx
import openai
from openai.resources.chat import AsyncCompletions


class RecordedClient(openai.AsyncOpenAI):
    """A client that an agent may close: all rollouts share the connection, which the recorder
    closes."""

    def __init__(self, **given: Any) -> None:  # of its copies with other options, too
        super().__init__(**given)
        self.chat.completions = _Completions(self)  # type: ignore[misc]  # it is cached there

    async def close(self) -> None:
        """Do nothing."""


class _Completions(AsyncCompletions):
    """OpenAI's, without validation of messages that are JSON already: that takes more than a
    millisecond for 24 messages in each call, and all agents of a step share one core."""

    async def create(self, **given: Any) -> Any:
        messages, extra = given.get("messages"), given.get("extra_body")
        if isinstance(messages, list) and not (extra and "messages" in extra):
            try:
                json.dumps(messages)
            except (TypeError, ValueError, RecursionError):
                return await super().create(**given)  # it has objects that are not JSON
            given = {**given, "messages": [], "extra_body": {**(extra or {}), "messages": messages}}
        return await super().create(**given)


def recorded_client(
    base_url: str | None, key: str | None, http: httpx.AsyncClient
) -> RecordedClient:
    """Return the client of a rollout. It does not retry and has no timeout: the recorder does
    both."""
    return RecordedClient(
        base_url=base_url, api_key=key, http_client=http, max_retries=0, timeout=None
    )
