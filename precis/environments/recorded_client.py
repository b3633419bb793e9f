"""OpenAI's client as an agent gets it."""

import json
from functools import cached_property
from typing import Any

import httpx
import openai
from openai.resources.chat import AsyncChat, AsyncCompletions


class RecordedClient(openai.AsyncOpenAI):
    """OpenAI's client, which leaves messages that are JSON already as they are.

    By itself it looks at each message as each kind of message that there is, again with every
    call: more than a millisecond for a conversation of 24, and all agents of a step share one
    core.
    """

    @cached_property
    def chat(self) -> AsyncChat:
        return _Chat(self)

    async def close(self) -> None:
        """Do nothing: the connection is that of all rollouts, and the recorder's to close."""


def recorded_client(
    base_url: str | None, key: str | None, http: httpx.AsyncClient
) -> RecordedClient:
    """Return the client of a rollout. What can be tried again the recorder has tried again, and it
    keeps the deadline."""
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
                return await super().create(**given)  # there is an object in it
            given = {**given, "messages": [], "extra_body": {**(extra or {}), "messages": messages}}
        return await super().create(**given)
