"""What a server sends takes little memory, ends in time, and never shows a part of our key."""

import asyncio
import json
import re
import resource
import string
import sys
import traceback
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from precis.benchmark.client import ContenderClient
from precis.benchmark.contender import hosted_contender
from precis.benchmark.measure import measure
from precis.config import ContenderConfig, JudgeConfig, RolloutsConfig
from precis.environments.recorder import Recorder
from precis.environments.ruler import TrajectoryRuler
from precis.environments.summaries.judge import JudgeClient
from precis.environments.summaries.prompt import summary_messages
from precis.errors import ConfigError, PrecisError
from precis.inference.local_server import find_served, list_models
from precis.llm.budget import Budget
from precis.llm.providers import Endpoint
from precis.llm.redaction import Redactor
from precis.records.documents import Corpus, Document, Question
from precis.rollouts.sample import adapter_policy, sample_each
from tests.security.hostile import (
    MIB,
    bomb,
    dripping,
    endless,
    hostile,
    quoting,
    quoting_in_the_status_line,
)
from tests.support.corpora import BUNDLED
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
    async with (
        Recorder() as recorder,
        adapter_policy(Endpoint(url, "m", KEY), 0, RolloutsConfig()) as policy,
    ):
        environment = summaries(Corpus((DOCUMENT,), ()), judge=None)
        scenarios = environment.scenarios("train")
        return await sample_each(recorder, policy, environment, scenarios, RolloutsConfig())


async def ask_for_models(url: str) -> object:
    return await find_served(url, "", KEY)


ASKS: dict[Ask, tuple[str, str]] = {
    ask_judge: ("too_large", "larger than 4 MiB"),
    ask_ruler: ("too_large", "larger than 4 MiB"),
    ask_contender: ("too_large", "larger than 4 MiB"),
    ask_policy: ("too_large", "larger than 4 MiB"),
    ask_for_models: ("lists its models without end", "larger than 1 MiB"),
}
"""Those who ask a server, and what each says of a reply without end."""


async def said(ask: Ask, url: str) -> str:
    """All that a person could come to read of an exchange."""
    try:
        return repr(await asyncio.wait_for(ask(url), DEADLINE_S + 10))
    except (PrecisError, TimeoutError) as error:
        return "".join([repr(error), *traceback.format_exception(error)])


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
    for part_of_it in ASKS[ask]:
        assert part_of_it in outcome


def message(key: str) -> str:
    return json.dumps({"error": {"message": f"Incorrect API key provided: {key}", "code": 401}})


def part(key: str) -> str:
    return json.dumps({"error": {"message": f"Key {key[3:-4]} or {key[:12]} is not known."}})


def reply(key: str) -> str:
    said = json.dumps({"answers": [{"id": key, "answer": key}], "scores": key})
    return json.dumps({"model": key, "choices": [{"message": {"content": said}}]})


def refusal(key: str) -> str:
    return json.dumps({"choices": [{"message": {"refusal": key}, "finish_reason": "stop"}]})


def models(key: str) -> str:
    return json.dumps({"data": [{"id": key}, {"id": f"m-{key}@1"}]})


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
        quoting(200, models),
        quoting(200, str),
        quoting_in_the_status_line,
    ],
)
@pytest.mark.parametrize("ask", ASKS)
async def test_a_key_that_a_server_quotes_is_never_seen(ask: Ask, answer: Callable) -> None:  # type: ignore[type-arg]
    async with hostile(answer) as server:
        outcome = await said(ask, server.url)
        # With another key a run of another test may ask, whose judge was at this port before.
        assert KEY in server.keys
    assert not quotes(outcome), outcome


@given(before=st.text(), part=st.tuples(st.integers(0, 19), st.integers(8, 27)), after=st.text())
def test_what_is_not_the_key_stays(before: str, part: tuple[int, int], after: str) -> None:
    quoted = KEY[part[0] : part[0] + part[1]]
    found = Redactor(KEY).clean_text(f"{before} {quoted} {after}")
    assert not quotes(found)
    assert found == f"{before} … {after}".encode("utf-8", "replace").decode()


LAST_FOUR = KEY[-4:]
CUT_SHORT = [
    "sk-…{last}",
    "sk-or-v1-4f***",
    "sk-or...",
    "sk-or-***************************{last}",
    "sk-o[redacted]{last}",
    "xxxxxxxxxxxx{last}",
    "**** {last}",
    "a key ending in {last}",
    "a key that ends with '{last}'",
    "the last four characters of your key are {last}",
    '{{"last4": "{last}"}}',
    '{{"key_suffix": "{last}", "api_key_hint": "sk-...{last}"}}',
    "the key starts with `sk-or-`",
]
keys = st.text(string.ascii_letters + string.digits + "-_", min_size=20, max_size=60).filter(
    lambda key: not key.isalpha()
)
masks = st.sampled_from(["***", "*" * 40, "…", "...", "[...]", "•••• ", "####", "____", "<...>"])
shown = st.integers(3, 20)


def letters(text: str) -> str:
    return re.sub(r"[\W_]", "", text)


@given(key=keys, mask=masks, first=shown, last=shown)
def test_no_end_of_a_masked_key_is_seen(key: str, mask: str, first: int, last: int) -> None:
    for masked in (key[:first] + mask + key[-last:], key[:first] + mask, mask + key[-last:]):
        for around in ("Key {} is not known.", "({})", '"{}"', "at {}\n"):
            cleaned = Redactor(key).clean_text(around.format(masked))
            assert letters(cleaned) == letters(around)
    for told in ("Your key, ending in {}, has expired.", '{{"last4": "{}"}}', "suffix: {}"):
        cleaned = Redactor(key).clean_text(told.format(key[-last:]))
        assert letters(cleaned) == letters(told.format(""))


@given(key=keys, text=st.sampled_from([document.text for document in BUNDLED]))
def test_ordinary_text_stays_as_it_is(key: str, text: str) -> None:
    # Eight characters of a key are left out wherever they stand, in a word like any other.
    assume(not any(key[at : at + 8] in text for at in range(len(key) - 7)))
    assert Redactor(key).clean_text(text) == text


texts = st.text() | st.text('\\"u0041{}[]:,*….35c8 ')


@given(texts.map(json.dumps).map(str.encode) | st.binary())
def test_a_reply_without_the_key_stays_as_it_is(content: bytes) -> None:
    assert Redactor("sk-or-v1-zzzzzzzzzzzz").clean(content) == content


@pytest.mark.parametrize(
    ("key", "text"),
    [
        *[(KEY, text) for text in ("Room 35c8 is closed.", "sk-or is short", "ending in 1945")],
        ("anything", "anything goes"),
        ("none", "none at all"),
    ],
)
def test_a_word_and_what_nothing_says_to_be_of_a_key_stay(key: str, text: str) -> None:
    assert Redactor(key).clean_text(text) == text


@pytest.mark.parametrize("told", CUT_SHORT)
def test_a_key_cut_short_is_left_out_of_a_text(told: str) -> None:
    cleaned = Redactor(KEY).clean_text(told.format(last=LAST_FOUR))
    assert LAST_FOUR not in cleaned
    assert "sk-o" not in cleaned


async def test_a_list_that_drips_costs_its_deadline_and_no_more() -> None:
    async with dripping() as url:
        with pytest.raises(ConfigError, match="does not list its models within 1 s"):
            await asyncio.wait_for(list_models(url, KEY, 1.0), 30)


@pytest.mark.parametrize(
    ("name", "listed"),
    [("\x1b]0;owned\x07\x1b[2J", None), ("My Model.gguf", ["a@1", "My Model.gguf"])],
)
async def test_a_name_that_moves_the_cursor_is_no_name(name: str, listed: list[str] | None) -> None:
    answer = quoting(200, lambda _: json.dumps({"data": [{"id": "a@1"}, {"id": name}]}))
    async with hostile(answer) as server:
        assert await list_models(server.url, KEY) == listed
