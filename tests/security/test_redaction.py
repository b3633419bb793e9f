"""Keys that a server quotes, however short a part of one it shows, and text that is none."""

import asyncio
import json
import logging
import re
import string
from collections.abc import Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from precis.llm.redaction import Redactor
from precis.observe.langfuse import Langfuse
from precis.observe.openpipe import OpenPipe
from precis.observe.sender import Sender, Service
from precis.observe.weave import Weave
from tests.security.hostile import hostile, quoting
from tests.security.test_replies import KEY
from tests.support.corpora import BUNDLED
from tests.support.observed import SEEN

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


@given(key=keys, last=shown)
def test_no_end_that_is_told_of_in_words_is_seen(key: str, last: int) -> None:
    for told in ("Your key, ending in {}, has expired.", '{{"last4": "{}"}}', "suffix: {}"):
        cleaned = Redactor(key).clean_text(told.format(key[-last:]))
        assert letters(cleaned) == letters(told.format(""))


@given(key=keys, document=st.sampled_from(BUNDLED))
def test_ordinary_text_stays_as_it_is(key: str, document: object) -> None:
    text = document.text  # type: ignore[attr-defined]
    # Eight characters of a key are left out wherever they stand, in a word like any other.
    assume(not any(key[at : at + 8] in text for at in range(len(key) - 7)))
    assert Redactor(key).clean_text(text) == text


@given(text=st.text() | st.text('\\"u0041{}[]:,*….35c8 '))
def test_a_reply_without_the_key_stays_as_it_is(text: str) -> None:
    packed = json.dumps(text).encode()
    assert Redactor("sk-or-v1-zzzzzzzzzzzz").clean(packed) == packed


@given(st.binary())
def test_bytes_that_are_no_text_stay_as_they_are(content: bytes) -> None:
    assert Redactor(KEY).clean(content) == content


@pytest.mark.parametrize("text", ["Room 35c8 is closed.", "sk-or is short", "ending in 1945", "…"])
def test_what_nothing_says_to_be_of_a_key_stays(text: str) -> None:
    assert Redactor(KEY).clean_text(text) == text


@pytest.mark.parametrize("told", CUT_SHORT)
def test_a_key_cut_short_is_left_out_of_a_text(told: str) -> None:
    cleaned = Redactor(KEY).clean_text(told.format(last=LAST_FOUR))
    assert LAST_FOUR not in cleaned
    assert "sk-o" not in cleaned


def openpipe(url: str) -> Service:
    return OpenPipe(url, KEY)


def langfuse(url: str) -> Service:
    return Langfuse(url, "pk-lf-3b1c5d", KEY)


def weave(url: str) -> Service:
    return Weave(url, "entity/project", KEY)


@pytest.mark.parametrize("service", [openpipe, langfuse, weave])
@pytest.mark.parametrize("told", ["{authorization}", KEY, CUT_SHORT[0]])
async def test_a_key_that_an_observer_quotes_is_not_logged(
    service: Callable[[str], Service], told: str, caplog: pytest.LogCaptureFixture
) -> None:
    def quoted(authorization: str) -> str:
        return told.format(last=LAST_FOUR, authorization=authorization)

    async with hostile(quoting(400, quoted)) as server:
        with caplog.at_level(logging.WARNING):
            sender = Sender(service(server.url.removesuffix("/v1")))
            sender.tell(SEEN)
            sender.end()
            await asyncio.to_thread(sender.wait, 20)
    assert "does not take all rollouts: it answered 400" in caplog.text
    sent = server.keys[0].removeprefix("Basic ")
    for secret in (KEY, sent, LAST_FOUR, "sk-o"):
        assert secret not in caplog.text
