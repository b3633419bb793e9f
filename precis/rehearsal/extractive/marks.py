"""Marks of fact in a sentence: what can be counted in it without reading the rest."""

import re
from collections.abc import Sequence

_PATTERNS: dict[str, re.Pattern[str]] = {
    "numbers": re.compile(r"\d[\d.,:/]*"),
    "names": re.compile(r"(?<=[\w,;)] )[A-Z][^\W\d_]+"),
}

_WORDS: dict[str, frozenset[str]] = {
    name: frozenset(words.split())
    for name, words in {
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
