"""Stems, stop words, names and number forms, which define equal words for the reader."""

import calendar
import re
import unicodedata
from collections import defaultdict
from functools import cache, lru_cache
from importlib.resources import files
from itertools import chain
from math import ceil

from precis.rehearsal.judges.numbers import MAY, combine_numbers, unify_numbers
from precis.rehearsal.judges.units import SIGN_WORDS
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
_DERIVED = {"ation": 4, "ion": 5, "ment": 3, "ly": 4, "er": 3, "or": 3}
"""Endings of derived words, with the least number of letters before each."""
_VOWELS = frozenset("aeiouy")
_SIBILANT = ("sses", "shes", "ches", "xes", "zes")
VARIANT_PREFIX = 4
_VARIANT_SHARE = 0.6
"""The least number of common first letters of two variants of a word, and their share of the longer
stem."""
_MAY = re.compile(r"(?<=[\w,][ -])May\b|\bMay(?= \d)")
_ACCENTED = (
    {
        code: unicodedata.normalize("NFD", chr(code))[0]
        for code in (*range(0xC0, 0x250), *range(0x1E00, 0x1F00))
    }
    | str.maketrans("øØłŁđĐı", "oOlLdDi")
    | str.maketrans({"ß": "ss", "æ": "ae", "Æ": "Ae", "œ": "oe", "Œ": "Oe"})
)
"""Latin letters with their usual replacements on keyboards without them."""
MONTHS = "|".join(calendar.month_name[1:])
WEEKDAYS = "|".join(calendar.day_name)
CAPITALS = "".join(filter(str.isupper, map(chr, range(0x530))))
"""Capital letters of the Latin, Greek and Cyrillic scripts."""
_WORD = rf"[{CAPITALS}][\w'\u2019]+"
_NAME = re.compile(
    rf"(?<=[^\W_])[,;:]?['\u2019\")]?[ \-\u2013\u2014]+[\"\u201c(\u2018]?({_WORD})"
    rf"|\b({MONTHS}|{WEEKDAYS})\b"
    rf"|\A({_WORD})(?=(?:,? (?:&|and|of|the|de|van|von))* [{CAPITALS}])"
)
_FULL_NAME = re.compile(rf"\b{_WORD}(?: {_WORD})+")
_TITLES = """
mr mrs ms miss mx dr doctor prof professor sir dame lord lady rev reverend bishop pastor rabbi imam
saint king queen prince princess mayor president minister senator governor ambassador councillor
councilor councilwoman councilman judge justice attorney captain colonel commander major general
lieutenant sergeant corporal officer inspector detective sheriff chief constable director manager
chair chairman chairwoman principal headmaster teacher coach chef nurse engineer artist author
farmer baker father mother brother sister uncle aunt grandmother grandfather yesterday today
"""
_HYPHEN = re.compile(r"(?<=\w)[-\u2010-\u2014/](?=\w)")


def is_content(token: str) -> bool:
    return token not in _STOP and token not in SIGN_WORDS


@lru_cache(maxsize=65_536)
def stem(token: str) -> str:
    """Return the stem of a lower-case token: `trained`, `training`, `trainer` have the same."""
    token = token.replace("\u2019", "'").removesuffix("'s").rstrip("'")
    if token[:1].isdigit():
        token = token.replace(",", "")  # `2.40` and `2.4` are the same number
        return token.rstrip("0").rstrip(".") if "." in token else token
    token = _irregular().get(token, token)
    token = _without_tense(_singular(token))
    token = _without_derivation(_irregular().get(token, token))
    if len(token) > 3 and token.endswith("e"):
        token = token[:-1]
    if len(token) > 5:
        token = token.removesuffix("at")  # `celebrate` and `celebration`
    return token[:-1] + "i" if len(token) > 2 and token.endswith("y") else token


def _singular(token: str) -> str:
    if len(token) > 4 and token.endswith("ies"):
        return token[:-3] + "y"
    if token.endswith(_SIBILANT):
        return token[:-2]
    if len(token) > 3 and token.endswith("s") and not token.endswith(("ss", "us", "is")):
        return token[:-1]
    return token


def _without_tense(token: str) -> str:
    if len(token) > 4 and token.endswith("ied"):
        return token[:-3] + "y"
    for ending in ("ing", "ed"):
        if token.endswith(ending) and _is_word(token.removesuffix(ending)) and token[-3:] != "eed":
            return _undoubled(token.removesuffix(ending))
    return token


def _without_derivation(token: str) -> str:
    if token in _without_ending():
        return token
    for ending, least in _DERIVED.items():
        rest = token.removesuffix(ending)
        if rest != token and len(rest) >= least and _is_word(rest):
            return _undoubled(rest) if ending in ("er", "or") else rest
    return token


def _is_word(rest: str) -> bool:
    return len(rest) >= 3 and not _VOWELS.isdisjoint(rest)


def _undoubled(token: str) -> str:
    """Undouble a final consonant: `planned` comes from `plan`, but `called` from `call`."""
    if len(token) > 3 and token[-1] == token[-2] and token[-1] not in "aeioulsz":
        return token[:-1]
    return token


@cache
def _irregular() -> dict[str, str]:
    """Return the base form of each irregular form."""
    bases = {}
    for base, *forms in _groups("irregular.txt"):
        for form in forms:
            bases[form] = base
    return bases


@cache
def common_stems() -> frozenset[str]:
    """Return the stems of words that are common in questions on any subject."""
    return frozenset(map(stem, chain.from_iterable(_groups("common.txt"))))


@cache
def _without_ending() -> frozenset[str]:
    """Return the words whose last letters only look like one of `_DERIVED`."""
    return frozenset(chain.from_iterable(_groups("endings.txt")))


def _groups(name: str) -> list[list[str]]:
    """Return the words of each line of a list in this package."""
    text = (files("precis.rehearsal.judges") / name).read_text("utf-8")
    return [line.split() for line in text.splitlines() if not line.startswith("#")]


@lru_cache(maxsize=32_768)
def words_of(text: str) -> tuple[str, ...]:
    """Return a text's lower-case words with its numbers, dates and times in one form each."""
    # Text with `López` as `Lopez`, for composed and combining accents.
    text = _MAY.sub(
        MAY, text if text.isascii() else unicodedata.normalize("NFC", text).translate(_ACCENTED)
    )
    return tuple(combine_numbers(tokens(_HYPHEN.sub(" ", unify_numbers(text)))))


def content_stems(text: str) -> list[str]:
    """Return the stems of a text's content words, in order."""
    return [stem(word) for word in words_of(text) if is_content(word)]


def is_variant(stem: str, other: str) -> bool:
    """Return whether two stems have a long enough common beginning: `conclud` and `conclusion`."""
    least = max(VARIANT_PREFIX, ceil(_VARIANT_SHARE * max(len(stem), len(other))))
    return stem[:least] == other[:least]


def has_digit(word: str) -> bool:
    return any(map(str.isdigit, word))


@cache
def _synonyms() -> dict[str, set[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for words in _groups("synonyms.txt"):
        group = set(map(stem, words))
        for word in group:
            found[word] |= group - {word}
    return found


def synonyms(word: str) -> set[str]:
    """Return the stems of a stem's synonyms."""
    return _synonyms().get(word, set())


@cache
def title_stems() -> frozenset[str]:
    """Return the stems of titles, which precede a surname in place of a first name."""
    return frozenset(map(stem, _TITLES.split()))


def full_names(text: str) -> tuple[tuple[str, str], ...]:
    """Return the stem of each other word of a full name, with that of its last, by which prose
    later refers to it."""
    found: list[tuple[str, str]] = []
    for match in _FULL_NAME.finditer(text):
        *others, last = content_stems(match.group()) or [""]
        for other in others:
            found.append((other, last))
    return tuple(found)


def name_stems(text: str) -> frozenset[str]:
    """Return the stems of months, weekdays and other words capitalised in mid-sentence."""
    stems: set[str] = set()
    for match in _NAME.finditer(text):
        name = next(group for group in match.groups() if group)
        stems.update(content_stems("in May" if name == "May" else name))
    return frozenset(stems)
