"""Stems, stop words and number forms: the reader's idea of when two words are the same."""

import re
from functools import cache, lru_cache
from importlib.resources import files

from precis.standins.numbers import combine_numbers, unify_numbers
from precis.text import tokens

_STOP = frozenset(
    tokens(
        """
        a about according after again against ago all almost along already also although always am
        among an and any anyone anything are around as at away back be because become been before
        being between both but by came can cannot come could did do does doing done down during
        each either else enough even ever every everyone everything exactly far few for from
        further gave get give given go goes going gone got had has have having he her here hers
        herself him himself his how however i if in instead into is it its itself just kind least
        less like made make makes making many may me might mine more most much must my myself near
        neither never no nobody none nor not nothing now of off often on once one only onto or
        other others otherwise ought our ours out over own per perhaps put quite rather really
        said same say says seem she should since so some someone something soon still such take
        taken takes than that the their theirs them themselves then there therefore these they
        thing things this those though through thus till to together too took toward towards under
        unless until up upon us use used using very via was way we well went were what whatever
        when where whether which while who whom whose why will with within without would yes yet
        you your yours
        """
    )
)
_SUFFIXES = ("ations", "ation", "ments", "ment", "ings", "ing", "ers", "er", "ors", "or")
_ENDINGS = (*_SUFFIXES, "ied", "ies", "ed", "es", "ly", "s", "e", "y")
VARIANT_PREFIX = 4
_VARIANT_SHARE = 0.6
"""How many letters, and what share of the longer stem, two variants of a word begin with."""
_MAY = re.compile(r"(?<=[\w,][ -])May\b|\bMay(?= \d)")
_HYPHEN = re.compile(r"(?<=\w)[-\u2010-\u2014/](?=\w)")


def is_content(token: str) -> bool:
    """Whether a lower-case token carries meaning of its own."""
    return token not in _STOP


@lru_cache(maxsize=65_536)
def stem(token: str) -> str:
    """A lower-case token without its inflection: `trained`, `training`, `trainer` are one."""
    token = token.replace("\u2019", "'").removesuffix("'s").rstrip("'")
    if token[:1].isdigit():
        return _plain_number(token)
    token = _irregular().get(token, token)
    for _ in range(2):
        for ending in _ENDINGS:
            if token.endswith(ending) and len(token) - len(ending) >= 3:
                token = token.removesuffix(ending)
                break
    if len(token) > 3 and token[-1] == token[-2] and token[-1] not in "aeiouls":
        token = token[:-1]
    return token


@cache
def _irregular() -> dict[str, str]:
    """The base form of each irregular form."""
    text = (files("precis.standins") / "irregular.txt").read_text("utf-8")
    groups = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return {form: base for base, *forms in groups for form in forms}


@lru_cache(maxsize=32_768)
def words_of(text: str) -> tuple[str, ...]:
    """A text's lower-case words with its numbers, dates and times in one form each."""
    text = _MAY.sub("Maius", text)
    return tuple(combine_numbers(tokens(_HYPHEN.sub(" ", unify_numbers(text)))))


def content_stems(text: str) -> list[str]:
    """The stems of a text's content words, in order."""
    return [stem(word) for word in words_of(text) if is_content(word)]


def is_variant(stem: str, other: str) -> bool:
    """Whether two stems begin alike enough to be of one word: `conclud` and `conclusion`."""
    if stem[:VARIANT_PREFIX] != other[:VARIANT_PREFIX]:
        return False
    least = max(VARIANT_PREFIX, _VARIANT_SHARE * max(len(stem), len(other)))
    return _shared_letters(stem, other) >= least


def _shared_letters(one: str, other: str) -> int:
    length = 0
    for mine, its in zip(one, other, strict=False):
        if mine != its:
            break
        length += 1
    return length


def has_digit(word: str) -> bool:
    """Whether a word has a digit in it."""
    return any(character.isdigit() for character in word)


def _plain_number(token: str) -> str:
    """`2.40` and `2.4` are one number."""
    token = token.replace(",", "")
    return token.rstrip("0").rstrip(".") if "." in token else token
