"""Whatever a server sends, it takes little memory, ends in time, and never shows our key."""

import asyncio
import json
import resource
import sys
import traceback
from collections.abc import Awaitable, Callable

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precis.benchmark.client import ContenderClient
from precis.benchmark.contender import hosted_contender
from precis.benchmark.measure import measure
from precis.config import ContenderConfig, JudgeConfig, RolloutsConfig
from precis.environments.recorder import Recorder
from precis.environments.ruler import TrajectoryRuler
from precis.environments.summaries.judge import Endpoint, JudgeClient
from precis.environments.summaries.prompt import summary_messages
from precis.errors import PrecisError
from precis.llm.budget import Budget
from precis.llm.redaction import Redactor
from precis.llm.tls import tls_for
from precis.records.documents import Corpus, Document, Question
from precis.rollouts.sample import adapter_policy, sample_each
from tests.security.hostile import (
    MIB,
    bomb,
    endless,
    hostile,
    quoting,
    quoting_in_the_status_line,
)
from tests.support.environments import summaries

KEY = "sk-or-v1-4f8c1d9b7a2e6035c8"
DOCUMENT = Document("d", "News", "The mayor spoke.", (Question("q", "Who?", "the mayor", True),))
DEADLINE_S = 20.0

Ask = Callable[[str], Awaitable[object]]


async def ask_judge(url: str) -> object:
    config = JudgeConfig(tries_max=1, verdict_timeout_s=DEADLINE_S)
    async with JudgeClient(Endpoint(url, "m", KEY), config) as judge:
        return await judge.score(DOCUMENT, "The mayor spoke.")


async def ask_ruler(url: str) -> object:
    config = JudgeConfig(tries_max=1, verdict_timeout_s=DEADLINE_S)
    messages = [*summary_messages("The mayor spoke."), {"role": "assistant", "content": "He did."}]
    ruler = TrajectoryRuler(Endpoint(url, "m", KEY), config, "It keeps the facts.")
    try:
        return await ruler.score([messages])
    finally:
        await ruler.close()


async def ask_contender(url: str) -> object:
    config = ContenderConfig(model="m", provider="url", base_url=url, tries_max=1)
    spec = hosted_contender(config, {"CONTENDER_API_KEY": KEY})
    rollouts = RolloutsConfig()
    environment = summaries(Corpus((), (DOCUMENT,)), judge=None)
    async with (
        ContenderClient(spec, rollouts, Budget(None), None) as contender,
        Recorder() as recorder,
    ):
        scenarios = environment.scenarios("validation")
        (attempt,) = await measure(recorder, contender, environment, scenarios)
    return attempt.rollout.score


async def ask_policy(url: str) -> object:
    http = openai.DefaultAsyncHttpxClient(verify=tls_for(url))
    async with (
        openai.AsyncOpenAI(base_url=url, api_key=KEY, max_retries=0, http_client=http) as client,
        Recorder() as recorder,
        adapter_policy(client, "m", 0, RolloutsConfig()) as policy,
    ):
        environment = summaries(Corpus((DOCUMENT,), ()), judge=None)
        scenarios = environment.scenarios("train")
        return await sample_each(recorder, policy, environment, scenarios, RolloutsConfig())


ASKS = [ask_judge, ask_ruler, ask_contender, ask_policy]


async def said(ask: Ask, url: str) -> str:
    """All that a person could come to read of an exchange."""
    try:
        return repr(await asyncio.wait_for(ask(url), DEADLINE_S + 10))
    except (PrecisError, TimeoutError) as error:
        return "".join(traceback.format_exception(error))


def quotes(text: str) -> bool:
    return any(KEY[at : at + 8] in text for at in range(len(KEY) - 7))


def mib_used() -> float:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / MIB


@pytest.mark.parametrize("answer", [endless, bomb])
@pytest.mark.parametrize("ask", ASKS)
async def test_a_reply_without_end_takes_little_memory(ask: Ask, answer: Callable) -> None:  # type: ignore[type-arg]
    async with hostile(quoting(500, str)) as warming:
        await said(ask, warming.url)
    async with hostile(answer) as server:
        before = mib_used()
        outcome = await said(ask, server.url)
        assert mib_used() - before < 64
        assert server.sent < 64 * MIB
    assert "larger than 4 MiB" in outcome
    assert "too_large" in outcome or "generation_failed" in outcome


def message(key: str) -> str:
    return json.dumps({"error": {"message": f"Incorrect API key provided: {key}", "code": 401}})


def part(key: str) -> str:
    return json.dumps({"error": {"message": f"Key {key[3:-4]} or {key[:12]} is not known."}})


def reply(key: str) -> str:
    said = json.dumps({"answers": [{"id": key, "answer": key}], "scores": key})
    return json.dumps({"model": key, "choices": [{"message": {"content": said}}]})


def refusal(key: str) -> str:
    return json.dumps({"choices": [{"message": {"refusal": key}, "finish_reason": "stop"}]})


def escaped(key: str) -> str:
    spelled = "".join(f"\\u{ord(letter):04x}" for letter in key)
    return f'{{"error": {{"message": "Key {spelled} is not known."}}}}'


@pytest.mark.parametrize(
    "answer",
    [
        quoting(401, message),
        quoting(401, part),
        quoting(401, escaped),
        quoting(400, message),
        quoting(429, message),
        quoting(503, str),
        quoting(200, message),
        quoting(200, reply),
        quoting(200, refusal),
        quoting(200, str),
        quoting_in_the_status_line,
    ],
)
@pytest.mark.parametrize("ask", ASKS)
async def test_a_key_that_a_server_quotes_is_never_seen(ask: Ask, answer: Callable) -> None:  # type: ignore[type-arg]
    async with hostile(answer) as server:
        outcome = await said(ask, server.url)
        assert KEY in server.keys[0] or answer is quoting_in_the_status_line
    assert not quotes(outcome), outcome


@given(before=st.text(), part=st.tuples(st.integers(0, 19), st.integers(8, 27)), after=st.text())
def test_what_is_not_the_key_stays(before: str, part: tuple[int, int], after: str) -> None:
    quoted = KEY[part[0] : part[0] + part[1]]
    found = Redactor(KEY).clean_text(f"{before} {quoted} {after}")
    assert not quotes(found)
    assert found == f"{before} … {after}".encode("utf-8", "replace").decode()


def test_a_word_given_for_a_key_is_no_secret() -> None:
    assert Redactor("anything").clean_text("anything goes") == "anything goes"
    assert Redactor("none").clean_text("none at all") == "none at all"
