"""Keys that a server quotes, however short a part of one it shows, and text that is none."""

import json
import re
import string

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from precis.llm.redaction import Redactor
from tests.security.test_replies import KEY
from tests.support.corpora import BUNDLED

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
