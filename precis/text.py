"""Sentences and words: the one definition of each that policy, judge and report share."""

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable

from precis.words import UNDIVIDED
from precis.words import count_words as count_words  # beside the other definitions

_COMBINING = "".join(
    mark for mark in map(chr, range(0x300, 0xFE30)) if unicodedata.category(mark)[0] == "M"
)
"""Vowel signs and the like: parts of a word that `\\w` does not know."""
_TOKEN = re.compile(rf"[\w{_COMBINING}]+(?:[.,:'’\-][\w{_COMBINING}]+)*")
_ASCII_TOKEN = re.compile(r"[a-z0-9]+(?:[.,:'\-][a-z0-9]+)*")
_ABBREVIATION = re.compile(
    r"(?:\b(?:[A-Z]|Mr|Mrs|Ms|Dr|Prof|St|No|Inc|Ltd|Co|Jr|Sr|vs|etc|e\.g|i\.e|[ap]\.m|approx))\.$"
)
_ABBREVIATION_MAX = 16
"""More characters than an abbreviation has, with its full stop and the text before it."""
# A full stop of a script with spaces counts before a space; one of Chinese or Japanese anywhere.
_BOUNDARY = re.compile(
    r"(?<=[.!?…؟۔।॥։።။។])[\"”’»)]?\s+(?=[\"“‘«(]?[^\W_])|(?<=[。！？｡])[」』”’）]*\s*|\n"
)
_OPENING = '"“‘«('
_LINE_ENDS = re.compile("\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_CONTROLS = re.compile(
    # A terminal's sequences, whole where they are whole; other controls; halves of characters.
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"
    r"|[\x00-\x08\x0e-\x1f\x7f-\x9f\ud800-\udfff]"
)


Spans = list[tuple[int, int]]
"""The places where words begin and end in a text."""

_WORD = re.compile(r"\w+(?:['’.,:]\w+)*")
_COMMON_SHARE = 0.05
_COMMON_MIN = 3
_ALIKE_LETTERS = 5
"""Words that share this many first letters may be one: `approved`, `approval`."""


def common_words(texts: Iterable[str]) -> frozenset[str]:
    """Return the words that are in many of these texts, and so decide nothing."""
    counts: Counter[str] = Counter()
    known = 0
    for text in texts:
        counts.update(set(_WORD.findall(text.casefold())))
        known += 1
    least = max(_COMMON_MIN, _COMMON_SHARE * known)
    return frozenset(word for word, count in counts.items() if count >= least)


def decisive_words(question: str, gold: str, answer: str, common: Collection[str]) -> Spans:
    """Return where an answer has the words that the golden answer adds to its question."""
    asked = set(_WORD.findall(question.casefold()))
    wanted = set(_WORD.findall(gold.casefold())).difference(asked, common)
    found = []
    for match in _WORD.finditer(answer):
        word = match.group().casefold()
        for other in wanted:
            letters = max(_ALIKE_LETTERS, len(word) - 3, len(other) - 3)
            begins_alike = len(word) >= letters and word[:letters] == other[:letters]
            if word == other or begins_alike:
                found.append(match.span())
                break
    return found


def tokens(text: str) -> list[str]:
    """Lower-case alphanumeric tokens; `3.5`, `12:30`, `o'clock` and `re-opened` stay whole.

    Where a script has no spaces between words, every two neighbouring characters are a token.
    """
    lower = text.lower().replace("_", " ")
    if lower.isascii():
        return _ASCII_TOKEN.findall(lower)
    found: list[str] = []
    for match in _TOKEN.finditer(lower):
        token = match.group()
        end = 0
        for stretch in UNDIVIDED.finditer(token):
            if end < stretch.start():
                found.append(token[end : stretch.start()])
            signs = stretch.group()
            for at in range(max(1, len(signs) - 1)):
                found.append(signs[at : at + 2])
            end = stretch.end()
        if end < len(token):
            found.append(token[end:])
    return found


def sentences(text: str) -> list[str]:
    """Split into sentences, in order, without surrounding white space.

    A line break ends a sentence, so headings and list items are separate. Initials and the
    usual abbreviations do not, nor does a stop before a small letter.
    """
    found: list[str] = []
    start = 0
    for boundary in _BOUNDARY.finditer(text):
        closing = text[boundary.start() : boundary.end()].rstrip()
        # No more of the text than decides, so that many stops that end nothing cost no more.
        before = text[max(start, boundary.start() - _ABBREVIATION_MAX) : boundary.start()] + closing
        after = text[boundary.end() : boundary.end() + 2]
        # The stop of an abbreviation, or before a small letter, does not end a sentence.
        is_short = bool(_ABBREVIATION.search(before.strip()))
        goes_on = is_short or after.lstrip(_OPENING)[:1].islower()
        if "\n" not in boundary.group() and goes_on:
            continue
        piece = text[start : boundary.start()] + closing
        if piece.strip():
            found.append(piece.strip())
        start = boundary.end()
    tail = text[start:].strip()
    if tail:
        found.append(tail)
    return found


def without_controls(text: str) -> str:
    """Return text with plain line ends, and without control characters that a terminal
    interprets."""
    return _CONTROLS.sub("", _LINE_ENDS.sub("\n", text))


def count_of(count: int, noun: str) -> str:
    """Return a count with a regular noun: `1 document`, `3,500 documents`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def copied_share(text: str, source: str) -> float:
    """Return the share of a text's tokens that stand in a source word for word, five or more in a
    row.

    Shorter runs are a language's own: `at the end of`.
    """
    run = 5
    own = tokens(text)
    theirs = tokens(source)
    runs = {tuple(theirs[start : start + run]) for start in range(len(theirs) - run + 1)}
    copied = [False] * len(own)
    for start in range(len(own) - run + 1):
        if tuple(own[start : start + run]) in runs:
            copied[start : start + run] = [True] * run
    return sum(copied) / len(own) if own else 0.0
