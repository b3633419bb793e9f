"""Which responses are replies, which are worth another try, and which stop the run."""

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from precis.config import JudgeConfig
from precis.environments.summaries.judge import Endpoint, endpoint_for
from precis.environments.summaries.judge.endpoint import SECOND_KEY
from precis.errors import ConfigError, ProviderFailed, ProviderRejected
from precis.llm.client import ChatReply, whole_text
from precis.llm.replies import (
    SchemaRejected,
    first_choice,
    open_response,
    retry_after_s,
    strip_code_fence,
    text_of,
)
from precis.records.spend import Usage

ENDPOINT = Endpoint("https://judge.test/v1", "big-judge", "sk-secret-key", key_variable="BIG_KEY")


def error_of(status: int, body: Any, headers: dict[str, str] | None = None) -> Exception:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    with pytest.raises((ProviderFailed, SchemaRejected, ProviderRejected)) as raised:
        open_response(status, headers or {}, content, ENDPOINT)
    return raised.value


def choice(**fields: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": fields.pop("content", "{}")}
    message |= {"refusal": fields.pop("refusal", None)}
    return {"choices": [{"finish_reason": "stop", "message": message} | fields]}


@pytest.mark.parametrize(
    ("status", "cause"),
    [
        (408, "timeout"),
        (409, "server_error"),
        (425, "server_error"),
        (429, "rate_limited"),
        (500, "server_error"),
        (502, "server_error"),
        (503, "server_error"),
        (529, "server_error"),
    ],
)
def test_these_statuses_are_worth_another_try(status: int, cause: str) -> None:
    failure = error_of(status, b"<html>Bad Gateway</html>")
    assert isinstance(failure, ProviderFailed)
    assert failure.cause == cause


@pytest.mark.parametrize(
    ("status", "named"),
    [
        (400, ["big-judge", "BIG_KEY"]),
        (401, ["BIG_KEY"]),
        (402, ["BIG_KEY", "credit"]),
        (403, ["BIG_KEY"]),
        (404, ["big-judge"]),
        (413, ["big-judge"]),
        (301, ["base_url"]),
    ],
)
def test_these_statuses_stop_the_run_with_what_to_change(status: int, named: list[str]) -> None:
    stop = error_of(status, {"error": {"message": "No, because of sk-secret-key."}})
    assert isinstance(stop, ProviderRejected)
    assert all(name in str(stop) for name in named)
    assert "sk-secret-key" not in str(stop)


def test_google_s_400_for_a_bad_key_names_the_key() -> None:
    stop = error_of(400, [{"error": {"code": 400, "message": "API key not valid."}}])
    assert "rejects the key in BIG_KEY" in str(stop)


def test_openrouter_s_errors_inside_a_200_are_errors() -> None:
    limited = error_of(200, {"error": {"code": 429, "message": "upstream"}})
    assert isinstance(limited, ProviderFailed) and limited.cause == "rate_limited"
    broken = error_of(200, {"error": {"code": "oops", "message": "upstream"}, "choices": []})
    assert isinstance(broken, ProviderFailed) and broken.cause == "server_error"
    assert isinstance(error_of(200, {"error": {"code": 401, "message": "no"}}), ProviderRejected)


def test_a_moderated_document_is_refused_and_does_not_stop_the_run() -> None:
    body = {"error": {"code": 403, "message": "flagged", "metadata": {"reasons": ["violence"]}}}
    refused = error_of(403, body)
    assert isinstance(refused, ProviderFailed) and refused.cause == "refused"


@pytest.mark.parametrize(
    "message",
    [
        "response_format is not supported by this model",
        "Invalid JSON payload received. Unknown name additionalProperties at response_schema",
        "'json_schema' is not one of ['json_object', 'text']",
        "This model does not support structured outputs.",
    ],
)
def test_a_complaint_about_the_format_asks_for_a_plainer_one(message: str) -> None:
    assert isinstance(error_of(400, {"error": {"message": message}}), SchemaRejected)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'"ok"', b'{"choices": [{"mess', b"\xff"])
def test_a_body_that_is_no_json_object_is_a_bad_verdict(content: bytes) -> None:
    failure = error_of(200, content)
    assert isinstance(failure, ProviderFailed) and failure.cause == "bad_verdict"


def calling(call: object) -> dict[str, Any]:
    body = choice(content=None)
    body["choices"][0]["message"]["tool_calls"] = [call]
    return body


def reply_in(body: dict[str, Any]) -> str:
    """The text that the judge reads in a response."""
    first = first_choice(body, "judge")
    finish = first["finish_reason"]
    reply = ChatReply(body, first, text_of(first), finish, Usage(0, 0), None, "m", 0.0)
    return whole_text(reply, "judge")


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        ({"id": "x"}, "empty"),
        ({"choices": []}, "empty"),
        ({"choices": [None]}, "empty"),
        ({"choices": [{"finish_reason": "stop", "message": None}]}, "empty"),
        (choice(content=None), "empty"),
        (choice(content=" \n"), "empty"),
        (choice(content=[{"type": "text", "text": "{}"}]), "empty"),
        (calling({"function": {"name": "play"}}), "empty"),
        (calling({"function": "play"}), "empty"),
        (calling("play"), "empty"),
        (choice(finish_reason="length"), "truncated"),
        (choice(finish_reason="content_filter"), "refused"),
        (choice(content=None, refusal="I can't help with that."), "refused"),
        (choice(finish_reason="error"), "server_error"),
    ],
)
def test_a_response_without_a_whole_reply_fails_by_cause(body: dict[str, Any], cause: str) -> None:
    with pytest.raises(ProviderFailed) as raised:
        reply_in(body)
    assert raised.value.cause == cause


@pytest.mark.parametrize("fenced", ["```json\n{}\n```", "```\n{}\n```\n", "  ```JSON\n{}\n  ```"])
def test_a_code_fence_is_taken_off(fenced: str) -> None:
    assert strip_code_fence(fenced) == "{}"


@pytest.mark.parametrize("content", ["{}", "Sure:\n```json\n{}\n```", "```json\n{}\n``` Done."])
def test_only_a_fence_around_everything_is_taken_off(content: str) -> None:
    assert strip_code_fence(content) == content


@pytest.mark.parametrize(
    ("given", "seconds"),
    [("7", 7.0), ("0.25", 0.25), ("-3", 0.0), ("soon", None), ("nan", None), ("inf", None)],
)
def test_retry_after_is_read_as_seconds(given: str, seconds: float | None) -> None:
    assert retry_after_s({"retry-after": given}, None) == seconds


def test_retry_after_is_read_as_a_date() -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    assert retry_after_s({"retry-after": date}, None) == pytest.approx(30, abs=2)
    past = format_datetime(datetime.now(UTC) - timedelta(hours=1), usegmt=True)
    assert retry_after_s({"retry-after": past}, None) == 0


def test_google_s_retry_delay_is_read_from_the_body() -> None:
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "17.5s"}
    body = [{"error": {"code": 429, "message": "quota", "details": [{"@type": "x"}, info]}}]
    failure = error_of(429, body)
    assert isinstance(failure, ProviderFailed)
    assert failure.retry_after_s == 17.5


def test_presets_know_their_endpoint_model_and_key() -> None:
    environment = {"OPENROUTER_API_KEY": "or-key", "GEMINI_API_KEY": "gm-key"}
    router = endpoint_for(JudgeConfig(provider="openrouter"), environment)
    assert (router.model, router.api_key) == ("google/gemini-2.5-flash", "or-key")
    google = endpoint_for(JudgeConfig(provider="google", model="gemini-2.5-pro"), environment)
    assert (google.model, google.api_key) == ("gemini-2.5-pro", "gm-key")
    assert "or-key" not in repr(router)


@pytest.mark.parametrize(
    ("provider", "variable"), [("openrouter", "OPENROUTER_API_KEY"), ("google", "GEMINI_API_KEY")]
)
def test_a_missing_key_is_named(provider: Any, variable: str) -> None:
    with pytest.raises(ConfigError, match=variable):
        endpoint_for(JudgeConfig(provider=provider), {variable: " "})


def test_a_key_that_no_header_can_carry_is_named() -> None:
    config = JudgeConfig(provider="url", base_url="https://judge.test/v1/", model="m")
    assert endpoint_for(config, {"JUDGE_API_KEY": "k\n"}).base_url == "https://judge.test/v1"
    with pytest.raises(ConfigError, match="JUDGE_API_KEY"):
        endpoint_for(config, {"JUDGE_API_KEY": "two\nlines"})


def test_a_second_judge_has_a_key_of_its_own() -> None:
    config = JudgeConfig(provider="url", base_url="https://other.test/v1", model="m")
    keys = {"JUDGE_API_KEY": "first", SECOND_KEY: "second"}
    endpoint = endpoint_for(config, keys, own_key=SECOND_KEY)
    assert (endpoint.api_key, endpoint.key_variable) == ("second", SECOND_KEY)
    with pytest.raises(ConfigError, match=SECOND_KEY):
        endpoint_for(config, {"JUDGE_API_KEY": "first"}, own_key=SECOND_KEY)


def test_the_lexical_judge_needs_an_address_and_no_key() -> None:
    assert endpoint_for(JudgeConfig(), {}, "http://127.0.0.1:9/v1").model == "lexical-judge"
    with pytest.raises(ConfigError, match="none was started"):
        endpoint_for(JudgeConfig(), {})
