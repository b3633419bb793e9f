"""OpenAI's client for agents."""

import json
from functools import cached_property
from typing import Any

import httpx
import openai
from openai.resources.chat import AsyncChat, AsyncCompletions


class RecordedClient(openai.AsyncOpenAI):
    """OpenAI's client, without validation of messages that are JSON already.

    OpenAI's own checks each message against every message type in each call: more than a
    millisecond for 24 messages, and all agents of a step share one core.
    """

    @cached_property
    def chat(self) -> AsyncChat:
        return _Chat(self)

    async def close(self) -> None:
        """Do nothing: all rollouts share the connection, which the recorder closes."""


def recorded_client(
    base_url: str | None, key: str | None, http: httpx.AsyncClient
) -> RecordedClient:
    """Return the client of a rollout. It does not retry and has no timeout: the recorder does
    both."""
    return RecordedClient(
        base_url=base_url, api_key=key, http_client=http, max_retries=0, timeout=None
    )


class _Chat(AsyncChat):
    @cached_property
    def completions(self) -> AsyncCompletions:
        return _Completions(self._client)


class _Completions(AsyncCompletions):
    async def create(self, **given: Any) -> Any:
        messages, extra = given.get("messages"), given.get("extra_body")
        if isinstance(messages, list) and not (extra and "messages" in extra):
            try:
                json.dumps(messages)
            except (TypeError, ValueError, RecursionError):
                return await super().create(**given)  # it has objects that are not JSON
            given = {**given, "messages": [], "extra_body": {**(extra or {}), "messages": messages}}
        return await super().create(**given)
