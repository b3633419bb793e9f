"""Questions without a model: the text's own sentences with a number, date or name left out (cloze).

They are free and crude. Sentences are chosen by how central they are to the text, one in each
section of equal length.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal

from precis.questions.prompts import WrittenQuestion
from precis.rehearsal.judges.words import CAPITALS, MONTHS, WEEKDAYS
from precis.text import count_words, sentences, tokens

MODEL = "rules v2"
"""The name of the questions' writer; its version is raised with every change to the questions."""
Kind = Literal["name", "date", "number"]

_ASKED: dict[Kind, str] = {
    "name": "Which name is left out here:",
    "date": "When was it? The date is left out here:",
    "number": "How many or how much? The number is left out here:",
}
_GAP = "____"
_WRITTEN_MAX = 8
"""Questions per document, before the judge drops some."""
_WORDS_MIN = 8
_WORDS_MAX = 60
"""The bounds of a sentence's words: a shorter one says too little around its gap, a longer one is a
table."""
_AROUND = 24
"""Words shown before and after the gap."""
_SAID_OFTEN = 3
"""A fact in more sentences than this is the text's subject, which any summary has."""
_END = (".", "!", "?", "…", "。", "！", "？", "؟", "۔", "।", '"', "”", "’", "»", "」", ")")
_MONTH = f"(?:{MONTHS})"
_ORDINAL = r"\d{1,2}(?:st|nd|rd|th)?"
_NO_UNIT = (
    "and|are|but|for|from|had|has|have|into|per|than|that|the|their|they|was|were|when|which|who"
    "|will|with|would"
)
"""Words after a number that are not its unit."""
_NUMBER = (
    rf"(?<![\w.,-])(?:[$€£¥] ?)?\d+(?:[.,:]\d+)*(?: ?%| (?!(?:{_NO_UNIT})\b)[^\W\d_]{{3,}})?"
    r"|(?<=[^\x00-\x7f])\d+(?:[.,]\d+)*"
)
"""With the word behind it; in a script without spaces, without it."""
_FACTS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("date", re.compile(rf"\b{_ORDINAL} {_MONTH}(?: \d{{4}})?\b")),
    ("date", re.compile(rf"\b{_MONTH} {_ORDINAL}(?:,? \d{{4}})?\b")),
    ("date", re.compile(rf"\b{_MONTH} \d{{4}}\b|\b(?:1[5-9]|20)\d\d\b(?![.,]\d)")),
    ("date", re.compile(rf"\b(?:(?:{WEEKDAYS})s?|{_MONTH})\b")),
    ("number", re.compile(_NUMBER)),
)
_NAME_WORD = rf"[{CAPITALS}]\w*(?:['’-]\w+)*"
_NAME = re.compile(rf"{_NAME_WORD}(?: (?:(?:of|the|de|van|von) )?{_NAME_WORD}){{0,3}}")


_Fact = tuple[Kind, re.Match[str]]
"""A part of a sentence that can be left out."""


class RuleWriter:
    """Writes questions by rules in place of a model, on this machine and free of charge."""

    model = MODEL

    async def write(self, text: str) -> list[WrittenQuestion]:
        """Return the questions of a document; none if it has no number, date or name."""
        told: list[str] = []
        spoken_of: Counter[str] = Counter()
        for sentence in dict.fromkeys(sentences(text)):
            if sentence.endswith(_END) and _WORDS_MIN <= count_words(sentence) <= _WORDS_MAX:
                told.append(sentence)
                spoken_of.update(set(tokens(sentence)))

        def weight(sentence: str) -> float:
            """Weigh a sentence by the words it shares with others."""
            words = set(tokens(sentence))
            known = sum(spoken_of[word] - 1 for word in words if len(word) > 3)
            return known / math.sqrt(max(1, len(words)))

        written: list[WrittenQuestion] = []
        count = min(_WRITTEN_MAX, len(told))
        for place in range(count):
            stretch = told[place * len(told) // count : (place + 1) * len(told) // count]
            for sentence in sorted(stretch, key=weight, reverse=True):
                fact = _choose(sentence, told)
                if fact is not None:
                    written.append(_leave_out(fact, sentence))
                    break
        return written


def _leave_out(fact: _Fact, sentence: str) -> WrittenQuestion:
    """Return the question whose answer is a fact of a sentence."""
    kind, found = fact
    before = sentence[: found.start()].split(" ")
    after = sentence[found.end() :].split(" ")
    cut_before = "… " if len(before) > _AROUND else ""
    cut_after = " …" if len(after) > _AROUND else ""
    gap = f"{' '.join(before[-_AROUND:])}{_GAP}{' '.join(after[:_AROUND])}"
    asked = f"{_ASKED[kind]} {cut_before}{gap}{cut_after}"
    return WrittenQuestion(asked, found.group(), sentence, answerable=True)


def _choose(sentence: str, told: Sequence[str]) -> _Fact | None:
    """Return the date, number or name that is in the fewest other sentences; of those the longest.
    The beginning of a sentence does not count: its first word has a capital anyway, and a number
    there is a list's. Nor does a fact that is in its sentence twice: the question would show it."""
    facts: list[_Fact] = []
    for kind, pattern in (*_FACTS, ("name", _NAME)):
        for match in pattern.finditer(sentence):
            start, end = match.span()
            if any(start < other.end() and other.start() < end for _, other in facts):
                continue
            if any(character.isalnum() for character in sentence[:start]):
                facts.append((kind, match))
    rare = []
    for fact in facts:
        answer = fact[1].group()
        others = sum(answer in other for other in told) - 1
        if others < _SAID_OFTEN and sentence.count(answer) == 1:
            rare.append((others, -len(answer), fact[1].start(), fact))
    return min(rare, key=lambda one: one[:3])[3] if rare else None
