"""Golden answers made wrong by another number or date, another name, or negation."""

import calendar
import re
from collections.abc import Iterator
from random import Random

from precis.rehearsal.judges.words import is_content

_MONTHS = [month for month in calendar.month_name if month]
_DAYS = list(calendar.day_name)
_COUNTS = [
    "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "twelve", "forty",
]  # fmt: skip
_DIGITS = re.compile(r"\d+(?:[.,:]\d+)*")
_WORDS = [
    (words, re.compile(rf"\b(?:{'|'.join(words)})\b", re.IGNORECASE if words is _COUNTS else 0))
    for words in (_MONTHS, _DAYS, _COUNTS)
]
_NAME = re.compile(r"\b[A-Z][\w\u2019-]+(?: [A-Z][\w\u2019-]+)*")
_IN_MID_SENTENCE = re.compile(r"(?<=[a-z,;] )[A-Z][\w-]+(?: [A-Z][\w-]+)*")
_AUXILIARY = re.compile(
    r"\b(?:is|are|was|were|has|have|had|will|would|can|could|may|might|must|shall|should|does|do"
    r"|did)\b"
)
_DENIAL = re.compile(r"\b(?:not|never) ")
_OTHER_DENIAL = re.compile(
    r"\b(?:no|none|nobody|nothing|neither|nor|without)\b|n['\u2019]t\b", re.I
)


def other_numbers(gold: str, draw: Random) -> Iterator[str]:
    """Yield the answer with one number or date changed, for each of them."""
    for match in _DIGITS.finditer(gold):
        other = match.group()
        while other == match.group():
            other = re.sub(r"\d", lambda _: draw.choice("123456789"), other)
        yield _with(gold, match, other)
    for words, pattern in _WORDS:
        for match in pattern.finditer(gold):
            others = [word for word in words if word.lower() != match.group().lower()]
            yield _with(gold, match, draw.choice(others))


def other_names(gold: str, text: str, draw: Random) -> Iterator[str]:
    """Yield the answer with one name replaced by another of the document, for each of them."""
    no_names = set(re.findall(r"[a-z]+", text)) | {word.lower() for word in (*_MONTHS, *_DAYS)}
    known = []
    for name in sorted(set(_IN_MID_SENTENCE.findall(text))):
        words = [word.lower() for word in name.split()]
        if all(is_content(word) and word not in no_names for word in words):
            known.append(name)
    parts = {part for name in known for part in name.split()}
    for match in _NAME.finditer(gold):
        named = set(match.group().split())
        others = [name for name in known if not named & set(name.split())]
        if named <= parts and others:
            yield _with(gold, match, draw.choice(others))


def opposites(gold: str) -> Iterator[str]:
    """Yield the answer with its yes or no, or one denial, reversed."""
    rest = gold
    verdict = re.match(r"(yes|no)\b", gold, re.IGNORECASE)
    if verdict:
        yield ("No" if verdict.group().lower() == "yes" else "Yes") + gold[verdict.end() :]
        rest = gold[verdict.end() :]
    lead = gold[: len(gold) - len(rest)]
    denial = _DENIAL.search(rest)
    if denial:
        yield lead + rest[: denial.start()] + rest[denial.end() :]
    elif not _OTHER_DENIAL.search(rest) and (auxiliary := _AUXILIARY.search(rest)):
        yield lead + rest[: auxiliary.end()] + " not" + rest[auxiliary.end() :]


def _with(gold: str, match: re.Match[str], other: str) -> str:
    return gold[: match.start()] + other + gold[match.end() :]
