"""Rewards of summaries, and disqualification."""

import unicodedata
from collections import Counter
from functools import lru_cache

from precis.environments.summaries.prose import prose_share
from precis.records.documents import Document
from precis.records.verdict import Answer, Disqualified, Scored
from precis.text import count_glued, count_words, pieces

_FOREIGN_SHARE_MAX = 0.1
_OWN_SHARE_MIN = 0.02
_GLUED_SHARE_MAX = 0.02
"""Words such as `into` or `cannot` may be two of a document's words by chance; more are glued."""
_DENSITY_MAX = 1.15
"""Characters per word, as a multiple of the document's. Freely written summaries have 1.13 at most,
and the densest sentences of the bundled documents 1.12."""


def disqualify(summary: str, document: Document, words_max: int) -> Disqualified | None:
    """Return why a summary scores zero without a judge, or None: it is over the limit in words or
    characters, in another script than its document, or a list of words."""
    if not summary.strip():
        return "empty"
    words = count_words(summary)
    vocabulary, characters_a_word = _measures(document.text)
    glued = count_glued(summary, vocabulary)
    if words > words_max or (glued > _GLUED_SHARE_MAX * words and words + glued > words_max):
        return "over_length"
    letters = _letters_by_script(summary)
    own = _letters_by_script(document.text)
    foreign = 0
    for script, count in letters.items():
        if own[script] <= _OWN_SHARE_MIN * own.total():
            foreign += count
    if not letters or foreign > _FOREIGN_SHARE_MAX * letters.total():
        return "wrong_script"
    if not prose_share(summary, document.text):
        return "not_prose"
    # More characters than this many words of its document would have.
    characters_max = _DENSITY_MAX * characters_a_word * words_max
    return "over_length" if _characters(summary) > characters_max else None


def reward_share(summary: str, words_max: int, ramp: float) -> float:
    """Return the share of its training reward that a summary keeps for its length: all of it up to
    the ramp, and then linearly less until the limit ("soft overlong punishment", Yu et al. 2025,
    https://arxiv.org/abs/2503.14476). The ramp is a share of `words_max`; 0 for none."""
    if not ramp:
        return 1.0
    left = words_max - count_words(summary)
    return min(1.0, max(0.0, left / (ramp * words_max)))


def score_zero(document: Document) -> Scored:
    """Return the verdict on a disqualified summary: every question unanswered."""
    answers = []
    for question in document.questions:
        answers.append(Answer(question.id, "", correct=False, answerable=question.answerable))
    return Scored(tuple(answers))


@lru_cache(maxsize=1024)
def _measures(text: str) -> tuple[frozenset[str], float]:
    """Return a document's words, in lower case, and its characters per word."""
    return frozenset(pieces(text.lower())), _characters(text) / max(1, count_words(text))


def _characters(text: str) -> int:
    return len(" ".join(text.split()))


def _letters_by_script(text: str) -> Counter[str]:
    """Count letters by script, the first word of their Unicode names, such as LATIN or CJK."""
    counts: Counter[str] = Counter()
    for letter, count in Counter(text).items():
        if letter.isalpha():
            script = unicodedata.name(letter, "UNKNOWN").partition(" ")[0]
            counts[script] += count
    return counts
