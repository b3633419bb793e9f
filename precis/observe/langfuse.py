"""Langfuse: every rollout as a trace with a generation for each call, and its scores.

Traces go to its OpenTelemetry endpoint as OTLP/HTTP in JSON, like those of its own clients since
version 3; scores to `/api/public/scores`. Both use the pair of keys. The attributes are those of
https://langfuse.com/integrations/native/opentelemetry.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import httpx

from precis import __version__
from precis.environment import Variables
from precis.observe.rollouts import RolloutRecord
from precis.observe.sender import Service, post

_INTERNAL = 1
_OK = 1


def langfuse(environment: Variables) -> Service | None:
    """Return Langfuse, if the project's pair of keys is set."""
    public = environment.langfuse_public_key
    secret = environment.langfuse_secret_key
    if public is None or secret is None:
        return None
    key = secret.get_secret_value()
    url = environment.langfuse_host.rstrip("/")
    # Without this header a server of version 4 shows traces minutes later.
    headers = {"x-langfuse-ingestion-version": "4"}

    async def send(client: httpx.AsyncClient, batch: Sequence[RolloutRecord]) -> None:
        spans = [span for seen in batch for span in _spans(seen)]
        resource = {
            "resource": {"attributes": _attributes({"service.name": "precis"})},
            "scopeSpans": [{"scope": {"name": "precis", "version": __version__}, "spans": spans}],
        }
        traces = {"resourceSpans": [resource]}
        await post(client, f"{url}/api/public/otel/v1/traces", traces)
        for seen in batch:
            for name, value in seen.scores.items():
                score = {
                    # A retry with the same id does not add a score.
                    "id": f"{seen.id}-{name}",
                    "traceId": seen.id,
                    "observationId": seen.id[:16],
                    "name": name,
                    "value": value,
                    "dataType": "NUMERIC",
                }
                await post(client, f"{url}/api/public/scores", score)

    options = {"auth": (public.get_secret_value(), key), "headers": headers}
    return Service("Langfuse", url, key, options, send)


def _spans(seen: RolloutRecord) -> Iterator[dict[str, Any]]:
    """Yield the rollout with its whole conversation, and a generation for each call within it."""
    whole = {
        "langfuse.trace.name": f"rollout by {seen.model}",
        "session.id": seen.run,
        "langfuse.trace.tags": [seen.notes["split"], seen.notes["scenario"]],
        "langfuse.observation.type": "span",
        "langfuse.observation.input": _json(seen.calls[0].messages),
        "langfuse.observation.output": _json(seen.conversation),
        **{f"langfuse.trace.metadata.{name}": value for name, value in seen.notes.items()},
    }
    root = seen.id[:16]
    yield _span(seen.id, root, "rollout", seen.began_at, seen.ended_at, whole)
    for turn, call in enumerate(seen.calls):
        sent = seen.sent(call)
        messages = sent.pop("messages")
        model = sent.pop("model")
        usage = {"input": call.usage.prompt_tokens, "output": call.usage.completion_tokens}
        answered = _json(call.message) if call.message.get("tool_calls") else call.text
        told = {
            "langfuse.observation.type": "generation",
            "langfuse.observation.model.name": model,
            "langfuse.observation.model.parameters": json.dumps(sent),
            "langfuse.observation.input": _json(messages),
            "langfuse.observation.output": answered,
            "langfuse.observation.usage_details": json.dumps(usage),
            "langfuse.observation.cost_details": json.dumps(
                {} if call.usd is None else {"total": call.usd}
            ),
        }
        ended = call.asked_at + call.seconds
        own = seen.call_id(turn)[:16]
        span = _span(seen.id, own, f"turn {turn + 1}", call.asked_at, ended, told)
        yield {**span, "parentSpanId": root}


def _span(
    trace: str, own: str, name: str, began_at: float, ended_at: float, told: dict[str, Any]
) -> dict[str, Any]:
    return {
        "traceId": trace,
        "spanId": own,
        "name": name,
        "kind": _INTERNAL,
        # Rounded to microseconds, the precision of a float of this century's seconds.
        "startTimeUnixNano": str(round(1e6 * began_at) * 1000),
        "endTimeUnixNano": str(round(1e6 * ended_at) * 1000),
        "attributes": _attributes(told),
        "status": {"code": _OK},
    }


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    """Return strings and lists of strings in OTLP's JSON."""
    attributes = []
    for key, value in values.items():
        said: dict[str, Any] = {"stringValue": value}
        if isinstance(value, list):
            said = {"arrayValue": {"values": [{"stringValue": one} for one in value]}}
        attributes.append({"key": key, "value": said})
    return attributes
