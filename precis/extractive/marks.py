"""Marks of fact in a sentence: what can be counted in it without reading the rest."""

import re
from collections.abc import Sequence

_MONTH = (
    r"(?:January|February|March|April|May|June|July|August|September|October|November|December)"
)
_DAY = r"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day"

_PATTERNS: dict[str, re.Pattern[str]] = {
    "numbers": re.compile(r"\d[\d.,:/]*"),
    "money": re.compile(
        r"[$€£¥]\s?\d|\d\s?(?:%|per ?cent)"
        r"|\d (?:million |billion )?(?:dollars|euros|pounds|cents)\b"
    ),
    "dates": re.compile(rf"\b(?:{_MONTH}|{_DAY}|1[5-9]\d\d|20\d\d)\b"),
    "times": re.compile(r"\d[:.]\d\d\b|\d\s?[ap]\.?m\b"),
    "names": re.compile(r"(?<=[\w,;)] )[A-Z][^\W\d_]+"),
    "acronyms": re.compile(r"\b[A-Z]{2,}\b"),
    "list_mark": re.compile(r"\A(?:[-*•–]|\d+[.)])\s"),
    "heading": re.compile(r"[^.!?。！？؟۔।\"”’)」』]\Z"),
    "question": re.compile(r"[?？؟]"),
}

_WORDS: dict[str, frozenset[str]] = {
    name: frozenset(words.split())
    for name, words in {
        "units": (
            "km kg g ml cm mm mile miles metre metres meter meters litre litres gram grams degrees "
            "tons tonnes acres seconds minutes hour hours day days week weeks month months year "
            "years people noon midnight"
        ),
        "causes": (
            "because due cause caused owing since after therefore led blamed reason reasons cited "
            "following avoid prevent reduce ensure protect so result"
        ),
        "hedges": (
            "may might could perhaps generally often usually sometimes many some various such "
            "always most every any all"
        ),
    }.items()
}

MARKS: tuple[str, ...] = (*_PATTERNS, *_WORDS)
"""Names of the marks, in the order of `count_marks`."""


def count_marks(sentence: str, tokens: Sequence[str]) -> list[int]:
    """How often each of MARKS occurs in a sentence with these tokens (`precis.text.tokens`)."""
    counts = [len(pattern.findall(sentence)) for pattern in _PATTERNS.values()]
    for words in _WORDS.values():
        counts.append(sum(token in words for token in tokens))
    return counts
