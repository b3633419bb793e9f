"""From a verdict to a reward."""

import unicodedata
from typing import Literal

from precis.documents import Document
from precis.judge.verdict import Answer, Scored
from precis.text import count_words

Disqualified = Literal["empty", "over_length", "wrong_script"]

_FOREIGN_SHARE_MAX = 0.1


def disqualified(summary: str, document: Document, words_max: int) -> Disqualified | None:
    """Why a summary scores zero before any judge is asked, or None.

    As in ART's summarizer notebook, a summary over the limit scores zero, and so does one in a
    script that its document is not written in (a way for a policy to pack more into a word).
    """
    if not summary.strip():
        return "empty"
    if count_words(summary) > words_max:
        return "over_length"
    own = _scripts(document.text)
    letters = [_script(letter) for letter in summary if letter.isalpha()]
    foreign = sum(script not in own for script in letters)
    if not letters or foreign > _FOREIGN_SHARE_MAX * len(letters):
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


def _scripts(text: str) -> set[str]:
    """The scripts that carry a noticeable share of a text's letters."""
    counts: dict[str, int] = {}
    for letter in filter(str.isalpha, text):
        counts[_script(letter)] = counts.get(_script(letter), 0) + 1
    return {script for script, count in counts.items() if count > 0.02 * sum(counts.values())}


def _script(letter: str) -> str:
    """A letter's script, by the first word of its Unicode name: LATIN, CYRILLIC, CJK, …"""
    return unicodedata.name(letter, "UNKNOWN").partition(" ")[0]
