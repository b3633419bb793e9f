"""Conversion of an HTTP response to a reply or an error: `ProviderFailed` may be retried,
`ProviderRejected` only without what it says to be unsupported.
"""

import json
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from email.utils import formatdate, parsedate_to_datetime
from typing import Any

from precis.errors import ProviderFailed, ProviderRejected
from precis.llm.providers import Endpoint
from precis.llm.redaction import Redactor

REFUSALS = (400, 413, 422)
"""Statuses that concern one request, such as a prompt that is too long."""
_CAUSES = {
    302: "connection",  # temporary redirections: no API's, but a network's that wants a sign-in
    303: "connection",
    307: "connection",
    408: "timeout",
    409: "server_error",
    425: "server_error",
    429: "rate_limited",
}
_ABOUT_FORMAT = re.compile(
    r"response_?\s?(format|schema)|json[_ ]?(schema|object|mode)|structured.?output"
    r"|additional_?properties",
    re.IGNORECASE,
)
_CODE_FENCE = re.compile(r"\s*```(?:json)?[ \t]*\n(.*)\n[ \t]*```\s*", re.DOTALL | re.IGNORECASE)
_DETAIL_MAX = 300


def open_response(
    status: int, headers: Mapping[str, str], content: bytes, endpoint: Endpoint
) -> dict[str, Any]:
    """Return the body of a successful response; raise one of the two errors for any other."""
    body = _load(content)
    error = body.get("error")
    if status == 200 and not error:  # some gateways give an empty one with each reply
        if body:
            # LiteLLM puts the cost into a header, as 0 or empty where it knows no price.
            cost = _number(headers.get("x-litellm-response-cost", ""))
            if cost and isinstance(body.get("usage"), dict):
                body["usage"].setdefault("cost", cost)
            return body
        detail = f"The response is not a JSON object: {content[:200]!r}"
        raise ProviderFailed("bad_verdict", detail)
    # OpenRouter answers 200 before the model runs, and puts a later error into the body.
    if status == 200:
        code = error.get("code") if isinstance(error, dict) else None
        status = code if isinstance(code, int) and code >= 400 else 502
    raise _failure(status, headers, error, content, endpoint)


def first_choice(body: Mapping[str, Any], role: str) -> Mapping[str, Any]:
    """Return the first choice of a response; its message has a role, and maybe no text. Raises
    ProviderFailed if there is none, or the model refused or stopped early."""
    choices = body.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise ProviderFailed("empty", f"The {role}'s response has no choices.")
    choice = choices[0]
    message = choice.get("message")
    finish = choice.get("finish_reason")
    if not isinstance(message, dict):
        raise ProviderFailed("empty", f"The {role}'s reply has no message.")
    if finish == "content_filter" or message.get("refusal"):
        why = str(message.get("refusal") or finish)[:200]
        raise ProviderFailed("refused", f"The {role} refused: {why}")
    if finish == "error":
        why = str(choice.get("error"))[:200]
        raise ProviderFailed("server_error", f"The {role} broke off: {why}")
    if not isinstance(message.get("content"), str | None):
        raise ProviderFailed("empty", f"The {role}'s reply is not text.")
    calls = message.get("tool_calls") or []
    for call in calls if isinstance(calls, list) else [None]:
        function = call.get("function") if isinstance(call, dict) else None
        named = function if isinstance(function, dict) else {}
        if not all(isinstance(named.get(key), str) for key in ("name", "arguments")):
            raise ProviderFailed("empty", f"The {role}'s reply calls tools in no form of OpenAI's.")
    # Some servers leave the role out, and a client that sends the message back needs it.
    return {**choice, "message": {**message, "role": message.get("role") or "assistant"}}


def strip_code_fence(content: str) -> str:
    """Return a reply without the Markdown code fence that models put around JSON unasked."""
    fence = _CODE_FENCE.fullmatch(content)
    return fence.group(1) if fence else content


def retry_after_s(headers: Mapping[str, str], error: object) -> float | None:
    """Return the seconds that a rejection asks to wait, or None.

    Reads `Retry-After` as seconds or HTTP date (RFC 9110, 10.2.3), and the `retryDelay` that
    Google puts into the error's details (google.rpc.RetryInfo).
    """
    given = headers.get("retry-after", "").strip()
    if given:
        seconds = _number(given)
        with suppress(ValueError, OverflowError):
            if seconds is None:
                until_s = parsedate_to_datetime(given).timestamp()
                # By the server's clock, from which this machine's may differ.
                date = headers.get("date") or formatdate(usegmt=True)
                return max(0.0, until_s - parsedate_to_datetime(date).timestamp())
        return seconds
    details = error.get("details") if isinstance(error, dict) else None
    for detail in details if isinstance(details, list) else []:
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        if isinstance(delay, str) and delay.endswith("s"):
            return _number(delay[:-1])
    return None


def _failure(
    status: int, headers: Mapping[str, str], error: object, content: bytes, endpoint: Endpoint
) -> Exception:
    fields = error if isinstance(error, dict) else {}
    given = fields.get("message") if fields else error
    text = str(given) if given else content.decode("utf-8", "replace")
    if 300 <= status < 400:
        text = f"it redirects to {headers.get('location', 'nowhere')}"
    # JSON may have encoded a key in escapes, which are visible only after parsing.
    text = Redactor(endpoint.api_key).clean_text(text)
    message = " ".join(text.split())[:_DETAIL_MAX] or "no message"
    metadata = fields.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    wait_s = retry_after_s(headers, error)
    cause = _CAUSES.get(status, "server_error" if status >= 500 else None)
    at_limit = "limit_source" in metadata or "key limit exceeded" in message.lower()
    if (
        fields.get("code") == "insufficient_quota"  # OpenAI's 429 to an account without credit
        or fields.get("type") == "budget_exceeded"  # LiteLLM's 422 to a key
        or (status == 403 and at_limit)  # OpenRouter's to a key
    ):
        status, cause = 402, None
    elif status == 402 and wait_s is not None:
        cause = "rate_limited"  # OpenRouter's, until the requests in flight are charged
    if cause is not None:
        return ProviderFailed(cause, f"The {endpoint.role} answered {status}: {message}", wait_s)
    # OpenRouter's moderation, or a guardrail, concerns this document, not the key.
    if status == 403 and metadata.keys() & {"reasons", "patterns"}:
        detail = f"The {endpoint.role}'s moderation refused the text: {message}"
        return ProviderFailed("refused", detail)
    # Google answers 400 to a bad key, which concerns every request.
    is_key = endpoint.key_variable and "api key" in message.lower()
    unsupported = ""
    if status in (400, 422):
        if _ABOUT_FORMAT.search(message):
            unsupported = "response_format"
        elif "max_completion_tokens" in message:
            unsupported = "max_tokens"
        elif "temperature" in message and "support" in message:
            unsupported = "temperature"
    what = _rejection(status, message, endpoint)
    return ProviderRejected(what, 401 if is_key else status, unsupported)


def _rejection(status: int, message: str, endpoint: Endpoint) -> str:
    where = f"The {endpoint.role} at {endpoint.base_url}"
    if not endpoint.key_variable:
        return f"{where} does not accept requests to '{endpoint.model}' ({status}: {message})."
    if status in (401, 403) or "api key" in message.lower():
        return (
            f"{where} rejects the key in {endpoint.key_variable} ({status}: {message}). "
            f"Set {endpoint.key_variable} to a valid key that may use '{endpoint.model}'."
        )
    if status == 402:
        return (
            f"{where} has no credit left for the key in {endpoint.key_variable} ({message}). "
            "Add credit or use another key, then run again."
        )
    if status == 404:
        return (
            f"{where} does not serve the model '{endpoint.model}' ({status}: {message}). "
            f"Check the {endpoint.role}'s model and base_url."
        )
    return (
        f"{where} does not accept requests to '{endpoint.model}' ({status}: {message}). "
        f"Check the {endpoint.role}'s model, base_url and the key in {endpoint.key_variable}."
    )


def _load(content: bytes) -> dict[str, Any]:
    """Return a body as an object, with `?` for half of a character, which UTF-8 can't encode, and
    null for NaN; empty if it is not one. Google wraps errors in a list of one."""
    text = content.decode("utf-8-sig", "replace")
    try:
        body = json.loads(text, parse_constant=lambda _: None)
        if "\\ud" in text.lower():
            whole = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
            body = json.loads(whole)
    except (ValueError, RecursionError):
        return {}
    if isinstance(body, list) and len(body) == 1:
        body = body[0]
    return body if isinstance(body, dict) else {}


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return max(0.0, number) if math.isfinite(number) else None
