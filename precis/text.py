"""Sentences and words: the one definition of each that policy, judge and report share."""

import re

from precis.words import count_words

__all__ = ["count_words", "sentences", "tokens"]

_TOKEN = re.compile(r"[^\W_]+(?:[.,:'’\-][^\W_]+)*")
_ABBREVIATION = re.compile(
    r"(?:\b(?:[A-Z]|Mr|Mrs|Ms|Dr|Prof|St|No|Inc|Ltd|Co|Jr|Sr|vs|etc|e\.g|i\.e|[ap]\.m|approx))\.$"
)
_BOUNDARY = re.compile(r"(?<=[.!?])[\"”’)]?\s+(?=[\"“‘(]?[A-Z0-9])|\n\s*\n|\n(?=\s*[-*\d#])|\n")


def tokens(text: str) -> list[str]:
    """Lower-case alphanumeric tokens; `3.5`, `12:30`, `o'clock` and `re-opened` stay whole."""
    return [match.group().lower() for match in _TOKEN.finditer(text)]


def sentences(text: str) -> list[str]:
    """Split into sentences, in order, without surrounding white space.

    A line break ends a sentence, so headings and list items stand alone. Initials and the
    usual abbreviations do not.
    """
    found: list[str] = []
    start = 0
    for boundary in _BOUNDARY.finditer(text):
        closing = text[boundary.start() : boundary.end()].rstrip()
        piece = text[start : boundary.start()] + closing
        if "\n" not in boundary.group() and _ABBREVIATION.search(piece.strip()):
            continue
        if piece.strip():
            found.append(piece.strip())
        start = boundary.end()
    if tail := text[start:].strip():
        found.append(tail)
    return found
