"""The words of an answer that make it the golden one, for reports to set in bold."""

import re
from collections import Counter
from collections.abc import Collection, Iterable

Spans = list[tuple[int, int]]
"""Where words begin and end in a text."""

_WORD = re.compile(r"\w+(?:['’.,:]\w+)*")
_COMMON_SHARE = 0.05
_COMMON_MIN = 3
_ALIKE_LETTERS = 5
"""Two words that begin alike for so many letters may be one: `approved`, `approval`."""


def common_words(texts: Iterable[str]) -> frozenset[str]:
    """Return the words that stand in many of these texts, and so decide nothing."""
    counts: Counter[str] = Counter()
    known = 0
    for text in texts:
        counts.update(set(_WORD.findall(text.casefold())))
        known += 1
    least = max(_COMMON_MIN, _COMMON_SHARE * known)
    return frozenset(word for word, count in counts.items() if count >= least)


def decisive_words(question: str, gold: str, answer: str, common: Collection[str]) -> Spans:
    """Return where in an answer the words stand that the golden answer adds to its question."""
    asked = set(_WORD.findall(question.casefold()))
    wanted = {word for word in _WORD.findall(gold.casefold()) if word not in asked}
    wanted.difference_update(common)
    found = []
    for match in _WORD.finditer(answer):
        word = match.group().casefold()
        if any(word == other or _begin_alike(word, other) for other in wanted):
            found.append(match.span())
    return found


def _begin_alike(one: str, other: str) -> bool:
    letters = max(_ALIKE_LETTERS, len(one) - 3, len(other) - 3)
    return len(one) >= letters and one[:letters] == other[:letters]
