"""Langfuse: every completion as a trace with one generation, and its scores.

Traces go to its OpenTelemetry endpoint as OTLP/HTTP in JSON, which is the way that its own
clients write since version 3; scores to `/api/public/scores`. Both are authorized by the pair of
keys. The attributes are those of https://langfuse.com/integrations/native/opentelemetry.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import httpx

from precis import __version__
from precis.environment import Environment
from precis.llm.tls import tls_for
from precis.observe.completions import CompletionRecord

_TIMEOUT_S = 10
_INTERNAL = 1
_OK = 1


@dataclass(frozen=True)
class Langfuse:
    """Where Langfuse is, and the project's pair of keys."""

    url: str
    public_key: str = field(repr=False)
    secret_key: str = field(repr=False)

    @property
    def name(self) -> str:
        return "Langfuse"

    @classmethod
    def from_environment(cls, environment: Environment) -> Self | None:
        public = environment.langfuse_public_key
        secret = environment.langfuse_secret_key
        if public is None or secret is None:
            return None
        host = environment.langfuse_host
        return cls(host.rstrip("/"), public.get_secret_value(), secret.get_secret_value())

    def client(self) -> httpx.Client:
        # Without this header a server of version 4 shows what is written minutes later.
        headers = {"x-langfuse-ingestion-version": "4"}
        auth = (self.public_key, self.secret_key)
        return httpx.Client(
            auth=auth, headers=headers, timeout=_TIMEOUT_S, verify=tls_for(self.url)
        )

    def send(self, client: httpx.Client, batch: Sequence[CompletionRecord]) -> None:
        spans = {"resourceSpans": [_resource(list(map(_span, batch)))]}
        client.post(f"{self.url}/api/public/otel/v1/traces", json=spans).raise_for_status()
        for seen in batch:
            for score in _scores(seen):
                client.post(f"{self.url}/api/public/scores", json=score).raise_for_status()


def _resource(spans: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {
        "resource": {"attributes": _attributes({"service.name": "precis"})},
        "scopeSpans": [{"scope": {"name": "precis", "version": __version__}, "spans": spans}],
    }


def _span(seen: CompletionRecord) -> dict[str, Any]:
    usage = {"input": seen.prompt_tokens, "output": seen.completion_tokens}
    cost = {} if seen.usd is None else {"total": seen.usd}
    told = {
        "langfuse.trace.name": f"rollout by {seen.model}",
        "session.id": seen.run,
        "langfuse.trace.tags": [seen.notes["split"], seen.notes["scenario"]],
        "langfuse.observation.type": "generation",
        "langfuse.observation.model.name": seen.model,
        "langfuse.observation.model.parameters": json.dumps(dict(seen.parameters)),
        "langfuse.observation.input": json.dumps(list(seen.messages), ensure_ascii=False),
        "langfuse.observation.output": seen.text,
        "langfuse.observation.usage_details": json.dumps(usage),
        "langfuse.observation.cost_details": json.dumps(cost),
        **{f"langfuse.trace.metadata.{name}": value for name, value in seen.notes.items()},
    }
    return {
        "traceId": seen.id,
        "spanId": seen.id[:16],
        "name": "completion",
        "kind": _INTERNAL,
        "startTimeUnixNano": _nanoseconds(seen.ended_at - seen.seconds),
        "endTimeUnixNano": _nanoseconds(seen.ended_at),
        "attributes": _attributes(told),
        "status": {"code": _OK},
    }


def _nanoseconds(seconds: float) -> str:
    """To the microsecond: a float of this century's seconds holds no more."""
    return str(round(1e6 * seconds) * 1000)


def _scores(seen: CompletionRecord) -> Iterator[dict[str, Any]]:
    for name, value in seen.scores.items():
        yield {
            # The same id again is the same score, so that a try after a failure adds none.
            "id": f"{seen.id}-{name}",
            "traceId": seen.id,
            "observationId": seen.id[:16],
            "name": name,
            "value": value,
            "dataType": "NUMERIC",
        }


def _attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    """Strings and lists of strings, as OTLP's JSON has them."""
    attributes = []
    for key, value in values.items():
        said = _list(value) if isinstance(value, list) else {"stringValue": value}
        attributes.append({"key": key, "value": said})
    return attributes


def _list(values: Sequence[str]) -> dict[str, Any]:
    return {"arrayValue": {"values": [{"stringValue": value} for value in values]}}
