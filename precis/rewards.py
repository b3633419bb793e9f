"""From a verdict to a reward."""

import unicodedata
from collections import Counter
from functools import cache, lru_cache
from typing import Literal

from precis.documents import Document
from precis.judge.verdict import Answer, Scored
from precis.text import count_words

Disqualified = Literal["empty", "over_length", "wrong_script"]

_FOREIGN_SHARE_MAX = 0.1
_OWN_SHARE_MIN = 0.02


def disqualified(summary: str, document: Document, words_max: int) -> Disqualified | None:
    """Why a summary scores zero before any judge is asked, or None.

    As in ART's summarizer notebook, a summary over the limit scores zero, and so does one in a
    script that its document is not written in (a way for a policy to pack more into a word).
    """
    if not summary.strip():
        return "empty"
    if count_words(summary) > words_max:
        return "over_length"
    letters = _letters_by_script(summary)
    own = _letters_by_script(document.text)
    foreign = sum(count for script, count in letters.items() if not _is_own(script, own))
    if not letters or foreign > _FOREIGN_SHARE_MAX * letters.total():
        return "wrong_script"
    return None


def zero(document: Document) -> Scored:
    """The verdict on a disqualified summary: every question unanswered."""
    return Scored(
        tuple(
            Answer(question.id, answer="", correct=False, answerable=question.answerable)
            for question in document.questions
        )
    )


def _is_own(script: str, letters: Counter[str]) -> bool:
    """Whether a script carries a noticeable share of a document's letters."""
    return letters[script] > _OWN_SHARE_MIN * letters.total()


@lru_cache(maxsize=4096)
def _letters_by_script(text: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    for letter, count in Counter(text).items():
        if letter.isalpha():
            counts[_script(letter)] += count
    return counts


@cache
def _script(letter: str) -> str:
    """A letter's script, by the first word of its Unicode name: LATIN, CYRILLIC, CJK, …"""
    return unicodedata.name(letter, "UNKNOWN").partition(" ")[0]
