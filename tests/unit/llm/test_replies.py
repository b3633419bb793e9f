"""Which responses are replies, which are worth another try, and which stop the run."""

import json
import math
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from precis.config import JudgeConfig
from precis.environments.summaries.judge import Endpoint, endpoint_for
from precis.environments.summaries.judge.endpoint import OWN_KEY, SECOND_KEY
from precis.errors import ConfigError, ProviderFailed, ProviderRejected
from precis.llm.client import ChatReply, whole_text
from precis.llm.replies import open_response, retry_after_s, strip_code_fence

ENDPOINT = Endpoint("https://judge.test/v1", "big-judge", "sk-secret-key", key_variable="BIG_KEY")


def error_of(status: int, body: Any, headers: dict[str, str] | None = None) -> Exception:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    with pytest.raises((ProviderFailed, ProviderRejected)) as raised:
        open_response(status, headers or {}, content, ENDPOINT)
    return raised.value


def choice(**fields: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": fields.pop("content", "{}")}
    message |= {"refusal": fields.pop("refusal", None)}
    return {"choices": [{"finish_reason": "stop", "message": message} | fields]}


def said(message: str, code: object, **more: Any) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, **more}}


@pytest.mark.parametrize(
    ("status", "body", "cause"),
    [
        (408, b"<html>", "timeout"),
        *((status, b"<html>", "server_error") for status in (409, 425, 500, 502, 503, 529)),
        (429, b"<html>", "rate_limited"),
        # OpenRouter's errors inside a 200.
        (200, said("upstream", 429), "rate_limited"),
        (200, said("upstream", "oops") | {"choices": []}, "server_error"),
        (403, said("flagged", 403, metadata={"reasons": ["violence"]}), "refused"),
        (403, said("blocked", 403, metadata={"patterns": ["ignore all"]}), "refused"),
        *(
            (200, body, "bad_verdict")
            for body in (b"", b"[]", b"{}", b'"ok"', b'{"a": [{', b"\xff")
        ),
    ],
)
def test_what_concerns_one_request_has_a_cause(status: int, body: Any, cause: str) -> None:
    failure = error_of(status, body)
    assert isinstance(failure, ProviderFailed)
    assert failure.cause == cause


NO = said("No, \x1b[2Jbecause of sk-secret-key.", None)


@pytest.mark.parametrize(
    ("status", "body", "named"),
    [
        (400, NO, ["big-judge", "BIG_KEY"]),
        (401, NO, ["BIG_KEY"]),
        (402, NO, ["BIG_KEY", "credit"]),
        # OpenAI's for an account without credit.
        (429, {"error": {"message": "No.", "code": "insufficient_quota"}}, ["BIG_KEY", "credit"]),
        # LiteLLM's for a key whose budget is spent.
        (422, said("No.", "422", type="budget_exceeded"), ["BIG_KEY", "credit"]),
        # OpenRouter's for a key at its limit.
        (403, said("Key limit exceeded (total limit).", 403), ["BIG_KEY", "credit"]),
        (403, said("No.", 403, metadata={"limit_source": "key_limit"}), ["BIG_KEY", "credit"]),
        (403, NO, ["BIG_KEY"]),
        (404, NO, ["big-judge"]),
        (413, NO, ["big-judge"]),
        (301, NO, ["base_url"]),
        (200, said("no", 401), ["BIG_KEY"]),
        # Google's for a bad key.
        (400, [said("API key not valid.", 400)], ["rejects the key in BIG_KEY"]),
    ],
)
def test_what_concerns_all_stops_the_run(status: int, body: Any, named: list[str]) -> None:
    stop = error_of(status, body)
    assert isinstance(stop, ProviderRejected)
    assert all(name in str(stop) for name in named)
    assert "sk-secret-key" not in str(stop)
    assert "\x1b" not in str(stop)
    assert stop.status in (401, 403) or "rejects the key" not in str(stop)


def test_credit_that_is_only_held_for_requests_in_flight_is_waited_for() -> None:
    failure = error_of(402, NO, {"retry-after": "7"})
    assert isinstance(failure, ProviderFailed)
    assert (failure.cause, failure.retry_after_s) == ("rate_limited", 7)


def test_a_redirection_is_told_with_its_address() -> None:
    moved = error_of(308, b"", {"location": "https://judge.example.org/v1/chat/completions"})
    assert "(308: it redirects to https://judge.example.org/v1/chat/completions)" in str(moved)
    # Of a network that wants a sign-in, in the middle of a run.
    passing = error_of(302, b"", {"location": f"/login?key={ENDPOINT.api_key}"})
    assert isinstance(passing, ProviderFailed) and passing.cause == "connection"
    assert str(passing) == "The judge answered 302: it redirects to /login?key=…"


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
    complaint = error_of(400, {"error": {"message": message}})
    assert isinstance(complaint, ProviderRejected) and complaint.unsupported == "response_format"


@pytest.mark.parametrize("error", [None, {}, "", False])
def test_an_empty_error_is_none_and_nan_which_is_not_json_is_read_as_null(error: object) -> None:
    body = choice() | {"error": error}
    content = json.dumps(body | {"a": math.nan, "b": [-math.inf]})
    read = open_response(200, {}, content.encode(), ENDPOINT)
    assert read == {**body, "a": None, "b": [None]}


def calling(call: object) -> dict[str, Any]:
    body = choice(content=None)
    body["choices"][0]["message"]["tool_calls"] = [call]
    return body


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
        whole_text(ChatReply.of(body, "judge", None, 0.0), "judge")
    assert raised.value.cause == cause


@pytest.mark.parametrize(
    ("content", "left"),
    [
        ("```json\n{}\n```", "{}"),
        ("```\n{}\n```\n", "{}"),
        ("  ```JSON\n{}\n  ```", "{}"),
        ("{}", "{}"),
        ("Sure:\n```json\n{}\n```", None),
        ("```json\n{}\n``` Done.", None),
    ],
)
def test_only_a_fence_around_everything_is_taken_off(content: str, left: str | None) -> None:
    assert strip_code_fence(content) == (content if left is None else left)


def in_s(seconds: int) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


@pytest.mark.parametrize(
    ("given", "seconds"),
    [("7", 7.0), ("0.25", 0.25), ("-3", 0.0), ("soon", None), ("nan", None), ("inf", None)],
)
def test_retry_after_is_read_as_seconds(given: str, seconds: float | None) -> None:
    assert retry_after_s({"retry-after": given}, None) == seconds


def test_retry_after_is_read_as_a_date_and_google_s_delay_from_the_body() -> None:
    ahead = retry_after_s({"retry-after": in_s(3600)}, None)
    assert ahead == pytest.approx(3600, abs=60)
    assert retry_after_s({"retry-after": in_s(-3600)}, None) == 0
    # Of a server whose clock differs from this machine's by an hour.
    assert retry_after_s({"retry-after": in_s(3620), "date": in_s(3600)}, None) == 20
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "17.5s"}
    body = [{"error": {"code": 429, "message": "quota", "details": [{"@type": "x"}, info]}}]
    failure = error_of(429, body)
    assert isinstance(failure, ProviderFailed)
    assert failure.retry_after_s == 17.5


URL = JudgeConfig(provider="url", base_url="https://judge.test/v1/", model="m")


def test_presets_know_their_endpoint_model_and_key() -> None:
    environment = {"OPENROUTER_API_KEY": "or-key", "GEMINI_API_KEY": "gm-key"}
    router = endpoint_for(JudgeConfig(provider="openrouter"), environment)
    assert (router.model, router.api_key) == ("google/gemini-2.5-flash", "or-key")
    google = endpoint_for(JudgeConfig(provider="google", model="gemini-2.5-pro"), environment)
    assert (google.model, google.api_key) == ("gemini-2.5-pro", "gm-key")
    assert "or-key" not in repr(router)
    assert endpoint_for(URL, {"JUDGE_API_KEY": "k\n"}).base_url == "https://judge.test/v1"
    keys = {"JUDGE_API_KEY": "first", SECOND_KEY: "second"}
    second = endpoint_for(URL, keys, own_key=SECOND_KEY)
    assert (second.api_key, second.key_variable) == ("second", SECOND_KEY)


@pytest.mark.parametrize(
    ("config", "keys", "own_key", "named"),
    [
        (JudgeConfig(provider="openrouter"), {"OPENROUTER_API_KEY": " "}, OWN_KEY, "OPENROUTER"),
        (JudgeConfig(provider="google"), {"GEMINI_API_KEY": " "}, OWN_KEY, "GEMINI_API_KEY"),
        (URL, {OWN_KEY: "two\nlines"}, OWN_KEY, OWN_KEY),
        (URL, {OWN_KEY: "first"}, SECOND_KEY, SECOND_KEY),
    ],
)
def test_a_key_that_is_missing_or_that_no_header_can_carry_is_named(
    config: JudgeConfig, keys: dict[str, str], own_key: str, named: str
) -> None:
    with pytest.raises(ConfigError, match=named) as raised:
        endpoint_for(config, keys, own_key=own_key)
    assert ("any word will do" in str(raised.value)) == (config is URL), "a provider's key is none"
