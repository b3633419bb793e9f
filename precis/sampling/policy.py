"""The policy's own completions, asked for by the same client as everybody else's."""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import openai
from openai.types.chat.chat_completion import Choice
from pydantic import ValidationError

from precis.config import RolloutsConfig
from precis.errors import (
    ProviderFailed,
    ProviderRejected,
    StaleAdapter,
    TrainerError,
    TrainerLost,
)
from precis.llm.client import ChatClient, ChatReply, CompletionRequest, OwnServer
from precis.llm.limits import without_quota
from precis.llm.providers import Endpoint
from precis.llm.replies import SchemaRejected
from precis.llm.retry import Deadline
from precis.llm.tokens import estimate_tokens_with_margin
from precis.records.spend import Usage
from precis.records.summary import Summary
from precis.records.verdict import Unscored

_NO_SUCH_MODEL = (401, 404)
_CALL_TIMEOUT_S = 1200.0
"""Of one request; `RolloutsConfig.timeout_s` is the deadline that is met before it."""


@dataclass(frozen=True)
class SampledSummary:
    """A policy's summary, and the answer that it came in."""

    summary: Summary
    choice: Choice


def policy_client(client: openai.AsyncOpenAI, model: str, config: RolloutsConfig) -> ChatClient:
    """Our client for the endpoint that ART's client asks.

    Its replies are bounded and never quote a key, and it tries as often and as long as a benchmark
    of the same checkpoint does.
    """
    url = str(client.base_url).rstrip("/")
    endpoint = Endpoint(url, model, client.api_key, key_variable="", role=f"policy {model}")
    settings = OwnServer(
        without_quota(config.in_flight), _CALL_TIMEOUT_S, tries_max=1 + client.max_retries
    )
    return ChatClient(endpoint, settings, prices={})


async def sample(
    policy: ChatClient,
    messages: Sequence[Mapping[str, Any]],
    tokens_max: int,
    temperature: float,
    seed: int | None = None,
) -> SampledSummary | Unscored:
    """Ask a model for one completion: greedy, or sampled when a seed is given.

    Raises:
        TrainerLost: nobody listens at the client's address.
        TrainerError: the key is wrong, or there is no such model.
        StaleAdapter: another adapter than the one asked for has answered.
    """
    model = policy.endpoint.model
    request = _request(model, messages, tokens_max, temperature, seed)
    try:
        return await policy.complete(request, Deadline(_CALL_TIMEOUT_S), partial(_read, model))
    except ProviderFailed as error:
        if error.cause == "connection":
            raise TrainerLost(f"Nobody answers for {model} ({error}).") from error
        cause = "generation_timeout" if error.cause == "timeout" else "generation_failed"
        return Unscored(cause, f"{model}: {error}")
    except ProviderRejected as error:
        if error.status in _NO_SUCH_MODEL:
            raise TrainerError(f"{model} can't be asked for summaries: {error}") from error
        # A document that is too long, for instance: others may be summarized.
        return Unscored("generation_failed", f"{model} answered {error.status}: {error}")
    except SchemaRejected as error:
        return Unscored("generation_failed", f"{model}: {error}")


def _request(
    model: str,
    messages: Sequence[Mapping[str, Any]],
    tokens_max: int,
    temperature: float,
    seed: int | None,
) -> CompletionRequest:
    options: dict[str, Any] = {"temperature": 0.0}
    if seed is not None:
        options = {"temperature": temperature, "seed": seed, "logprobs": True}
    payload = {"model": model, "messages": list(messages), "max_tokens": tokens_max, **options}
    prompt_tokens = estimate_tokens_with_margin(len(json.dumps(payload, ensure_ascii=False)))
    return CompletionRequest(payload, Usage(prompt_tokens, tokens_max))


def _read(model: str, reply: ChatReply) -> SampledSummary:
    # An adapter is asked for as `name@step`; a base model has no step to be stale by.
    if "@" in model and reply.served_by != model:
        raise StaleAdapter(f"{reply.served_by!r} answered where {model!r} was asked for.")
    try:
        choice = Choice.model_validate(reply.choice)
    except ValidationError as error:
        detail = f"Its answer is no completion: {error.errors(include_url=False)[0]['msg']}"
        raise ProviderFailed("bad_reply", detail) from error
    summary = Summary(
        reply.text,
        reply.finish,
        reply.seconds,
        reply.usage.prompt_tokens,
        reply.usage.completion_tokens,
        served_by=reply.served_by,
        written_at=time.time(),
    )
    return SampledSummary(summary, choice)
