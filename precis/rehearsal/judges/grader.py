"""A rule-based test of whether an answer agrees with the golden answer.

An answer must have enough of the golden answer's content beyond the question, and nothing that
contradicts it: another number, date or name instead of the golden one, or a negation.
"""

import re
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from operator import or_
from typing import Self

from precis.records.documents import UNANSWERABLE
from precis.rehearsal.judges.units import counted
from precis.rehearsal.judges.words import (
    common_stems,
    content_stems,
    full_names,
    has_digit,
    is_content,
    is_variant,
    name_stems,
    stem,
    synonyms,
    title_stems,
    words_of,
)
from precis.text import sentences, tokens

_SHARE_MIN = 0.3
"""The least share of the golden answer's content in a right answer."""
_FACT = 2.0
"""The weight of a number, a date or a name; other words have 1."""
_SYNONYM = 0.7
"""The weight of a synonym, or a word with the same beginning."""
_ALIKE = 0.5
"""From this share of words on a sentence counts as a version of the golden answer, whose facts are
compared one by one."""
_SAME = 0.7
"""From this share on it says the same, so that one more negation makes it the opposite."""
_NEGATIONS = frozenset(
    tokens("not no never none nobody nothing neither nor without cannot nowhere")
)
_VERDICT = re.compile(r"\W*(yes|no)\b(?=\s*[,.;:!\u2013\u2014]|\s*$)", re.IGNORECASE)


@dataclass(frozen=True)
class _Statement:
    """The content of one or several sentences, by their words.

    Attributes:
        stems: of all content words.
        facts: the stems of numbers, dates and names.
        openings: the first word of each sentence, if it may be a name.
        names: the other words of full names, each with the last.
        counted: its numbers, each with its unit.
        length: the number of content words, with repetitions.
        denied: the stems after negations, with repetitions.
        verdict: `yes` or `no`, if it begins with one.
    """

    stems: frozenset[str]
    facts: frozenset[str]
    openings: frozenset[str]
    names: frozenset[tuple[str, str]]
    counted: frozenset[tuple[str, str]]
    length: int
    denied: tuple[str, ...]
    verdict: str

    def __or__(self, other: Self) -> Self:
        return replace(
            self,
            stems=self.stems | other.stems,
            facts=self.facts | other.facts,
            openings=self.openings | other.openings,
            names=self.names | other.names,
            counted=self.counted | other.counted,
            length=self.length + other.length,
            denied=self.denied + other.denied,
        )


def grade(question: str, gold: str, answer: str) -> bool:
    """Return whether an answer, which may say more, agrees with the golden answer. The question's
    own words do not count."""
    if UNANSWERABLE in (gold.strip(), answer.strip()):
        return gold.strip() == answer.strip()
    asked = _read(question)
    wanted = _read(gold)
    parts = list(map(_read, sentences(answer))) or [_read("")]
    given = reduce(or_, parts)
    if _counts_something_else(given, wanted):
        return False
    if wanted.verdict and given.verdict and wanted.verdict != given.verdict:
        return False
    if any(_contradicts(part, given, wanted, asked) for part in {given, *parts}):
        return False
    content = (wanted.stems - asked.stems) or wanted.stems
    if not content:
        return wanted.verdict == given.verdict
    weights = {word: _FACT if word in wanted.facts else 1.0 for word in sorted(content)}
    found = 0.0
    for word, weight in weights.items():
        if word in given.stems:
            found += weight
        elif word not in wanted.facts and (
            bool(synonyms(word) & given.stems)
            or any(is_variant(word, other) for other in given.stems)
        ):
            found += weight * _SYNONYM
    return found >= _SHARE_MIN * sum(weights.values())


def _contradicts(
    part: _Statement, given: _Statement, wanted: _Statement, asked: _Statement
) -> bool:
    """Return whether a sentence of an answer is the golden one with one negation more or less, or a
    version of it with another fact."""
    mine = part.stems - part.facts - asked.stems
    golden = wanted.stems - wanted.facts - asked.stems
    shared = len(mine & golden)
    is_same = shared >= _SAME * max(len(mine), len(golden))
    if is_same and (_denials(part, asked) - _denials(wanted, asked)) % 2 == 1:
        return True
    if shared < _ALIKE * len(golden) or shared + 1 < _ALIKE * len(mine):
        return False
    missing = wanted.facts | (wanted.stems & asked.facts)
    if shared >= _SAME * len(golden - wanted.openings):
        missing |= wanted.openings
    missing -= given.stems | _left_out(given, wanted)
    if missing and is_same and part.length >= wanted.length:
        return True  # Nothing was left out, so a known word replaces it.
    # A number in place of a number, or a name in place of a name.
    others = (part.facts | part.openings) - wanted.stems - asked.stems
    return not set(map(has_digit, missing)).isdisjoint(map(has_digit, others))


def _left_out(given: _Statement, wanted: _Statement) -> set[str]:
    """Return the other words of those golden full names of which an answer has only the last
    word."""
    # Neither titles nor beginnings of sentences.
    no_name = wanted.stems | title_stems() | common_stems()
    # The last words that the answer has with another name before them.
    renamed = set()
    for other, last in given.names:
        if other not in no_name and not synonyms(other):
            renamed.add(last)
    found = set()
    for first, last in wanted.names:
        if last in given.stems and last not in renamed:
            found.add(first)
    return found


def _counts_something_else(given: _Statement, wanted: _Statement) -> bool:
    """Return whether one of the golden numbers is in the sentence only with other units."""
    golden = _units(wanted)
    mine = _units(given)
    for number in golden.keys() & mine.keys():
        both = golden[number] | mine[number]
        if "" not in both and golden[number].isdisjoint(mine[number]):
            return True
    return False


def _units(statement: _Statement) -> dict[str, set[str]]:
    found: defaultdict[str, set[str]] = defaultdict(set)
    for number, unit in statement.counted:
        found[number].add(unit)
    return found


def _denials(statement: _Statement, asked: _Statement) -> int:
    return sum(word not in asked.denied for word in statement.denied)


@lru_cache(maxsize=32_768)
def _read(text: str) -> _Statement:
    verdict = _VERDICT.match(text)
    rest = text[verdict.end() :] if verdict else text
    words = content_stems(rest)
    stems = frozenset(words)
    facts = {word for word in stems if has_digit(word)} | (stems & name_stems(rest))
    said = verdict[1].lower() if verdict else ""
    names = frozenset(full_names(rest))
    # The stem of each sentence's first word, unless it is a word with known synonyms.
    openings = set()
    for sentence in sentences(rest):
        for word in filter(is_content, words_of(sentence)[:1]):
            opening = stem(word)
            if not synonyms(opening) and opening not in common_stems():
                openings.add(opening)
    units = frozenset((stem(number), unit) for number, unit in counted(words_of(rest)))
    return _Statement(
        stems,
        frozenset(facts),
        frozenset(openings),
        names,
        units,
        len(words),
        _denied(rest),
        said,
    )


def _denied(text: str) -> tuple[str, ...]:
    """Return the stem of the first content word after each negation."""
    found: list[str] = []
    waiting = False
    for word in words_of(text):
        if word in _NEGATIONS or word.endswith(("n't", "n\u2019t")):
            waiting = True
        elif waiting and is_content(word):
            found.append(stem(word))
            waiting = False
    return (*found, "") if waiting else tuple(found)
