"""350 words are 350 words, however a summary joins them."""

import re
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precis.environments.summaries.baselines import lead
from precis.environments.summaries.rewards import disqualify
from precis.records.documents import Document
from precis.rehearsal.judges.grader import grade
from precis.rehearsal.judges.reader import answer
from precis.text import WORDS_MAX, count_words
from tests.support.corpora import BUNDLED

TWELVE = BUNDLED[::16]
JOINTS = (
    *("/", "_", "-", ".", "'", "’", ",", "·", "\u00ad", "\u200b", "\u2060", "\ufeff", "\u200d"),
    *("\u3164", "\0", ""),
)
STOP = re.compile(
    r"\b(a|an|and|as|at|be|by|for|from|had|has|he|her|his|in|is|it|its|of|on|or|she|that|the|their"
    r"|they|this|to|was|were|which|who|with) (?=\w)",
    re.IGNORECASE,
)

Attack = Callable[[str], str]


def joined(joint: str, text: str) -> str:
    return joint.join(text.split())


def with_stop_words_glued_on(text: str) -> str:
    """`the crown of the king` becomes `thecrown oftheking`."""
    return STOP.sub(r"\1", text)


def with_stop_words_glued_together(text: str) -> str:
    """`the crown of the king` becomes `the crown ofthe king`: content words stay readable."""
    return re.sub(rf"({STOP.pattern})(?={STOP.pattern})", lambda match: match[2], text)


def in_pairs(text: str) -> str:
    words = text.split()
    return " ".join("".join(words[at : at + 2]) for at in range(0, len(words), 2))


def in_tags(text: str) -> str:
    """As invisible tag characters, which a model can read, behind an honest beginning."""
    hidden = "".join(chr(0xE0000 + ord(letter)) for letter in text if ord(letter) < 128)
    return lead(text, 50) + hidden


def accuracy(document: Document, summary: str) -> float:
    """The reward by the lexical judge."""
    if disqualify(summary, document, WORDS_MAX):
        return 0.0
    asked = [question for question in document.questions if question.answerable]
    right = [grade(one.text, one.answer, answer(summary, one.text)) for one in asked]
    return sum(right) / len(asked)


GLUED = (with_stop_words_glued_on, with_stop_words_glued_together, in_pairs)


@pytest.mark.parametrize("attack", [*[partial(joined, joint) for joint in JOINTS], *GLUED, in_tags])
def test_a_whole_document_is_over_the_limit_whatever_joins_its_words(attack: Attack) -> None:
    assert len(TWELVE) == 12
    for document in TWELVE:
        assert disqualify(attack(document.text), document, WORDS_MAX) == "over_length"


@pytest.mark.parametrize("attack", [*GLUED, partial(joined, "_"), partial(joined, "-")])
def test_disguised_text_earns_no_more_than_honest_text(attack: Attack) -> None:
    honest = sum(accuracy(each, lead(each.text, WORDS_MAX)) for each in TWELVE)
    whole = sum(accuracy(each, attack(each.text)) for each in TWELVE)
    packed = 0.0
    for each in TWELVE:
        pieces = attack(each.text).split()[:WORDS_MAX]
        packed += accuracy(each, " ".join(pieces))
    cut = sum(accuracy(each, attack(lead(each.text, WORDS_MAX))) for each in TWELVE)
    assert honest > 0.2 * len(TWELVE)
    assert max(whole, packed, cut) <= honest


@settings(max_examples=300)
@given(
    words=st.lists(st.text("abcdefghij", min_size=1, max_size=12), min_size=1, max_size=40),
    joint=st.sampled_from([" ", "\n", *JOINTS[:-1]]),
)
def test_joining_words_saves_at_most_what_a_long_run_hides(words: list[str], joint: str) -> None:
    counted = count_words(joint.join(words))
    letters = sum(map(len, words))
    assert counted <= max(len(words), letters // 5 + 1)
    assert counted >= letters / 30 / 2
