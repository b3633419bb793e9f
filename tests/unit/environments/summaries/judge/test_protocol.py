"""A reply counts only if it is exactly what was asked for."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from precis.environments.summaries.judge.protocol import (
    BadReply,
    answer_prompt,
    parse_answers,
    parse_grades,
    ruling,
)
from precis.records.documents import UNANSWERABLE, Question

QUESTIONS = [Question(f"doc-{n}", f"Question {n}?", f"Answer {n}", True) for n in range(5)]
IDS = ("q1", "q2", "q3")


def grades(*entries: Any) -> str:
    return json.dumps({"grades": [{"id": id, "correct": correct} for id, correct in entries]})


def test_a_prompt_never_shows_a_golden_answer_to_the_one_who_answers() -> None:
    asked = answer_prompt("The text.", QUESTIONS).messages
    assert not any(q.answer in message["content"] for message in asked for q in QUESTIONS)


def of(answer: str, *, answerable: bool = True) -> Question:
    return Question("q", "What was it?", answer, answerable)


@pytest.mark.parametrize(
    ("golden", "given"),
    [
        ("Maria Silva", "maria  silva."),
        ("The storm", "a storm"),
        ("3 May 2021", "3 May\n2021"),
        ("café", "cafe\u0301"),
        ("A", "a."),
    ],
)
def test_the_golden_answer_word_for_word_takes_no_grader(golden: str, given: str) -> None:
    assert ruling(of(golden), given) is True


@pytest.mark.parametrize(
    ("golden", "given"),
    [
        ("5", "-5"),
        ("5", ".5"),
        ("5", "(5)"),
        ("5½", "51⁄2"),
        ("40,000 euros", "40000 euros"),
        ("Maria Silva", "the mayor Maria Silva"),
        ("...", "?"),
    ],
)
def test_any_other_answer_takes_one(golden: str, given: str) -> None:
    assert ruling(of(golden), given) is None


def test_declining_is_right_only_where_there_is_no_answer() -> None:
    assert ruling(of("5"), UNANSWERABLE) is False
    assert ruling(of(UNANSWERABLE), UNANSWERABLE) is False
    assert ruling(of(UNANSWERABLE, answerable=False), UNANSWERABLE) is True
    assert ruling(of(UNANSWERABLE, answerable=False), "5") is False


VALID = [("q1", True), ("q2", False), ("q3", True)]


@pytest.mark.parametrize(
    "reply",
    [
        "",
        '{"grades": {"q1": true, "q2": true, "q3": true}}',
        grades(*VALID[:2]),
        grades(*VALID, ("q4", True)),
        grades(*VALID, VALID[0]),
        grades(("q1", "true"), *VALID[1:]),
        grades(("q1", 1), *VALID[1:]),
        grades(*VALID)[:-1],
        grades(*VALID) + grades(*VALID),
        "Here you are: " + grades(*VALID),
        json.dumps({"grades": json.loads(grades(*VALID))["grades"], "note": "all true"}),
        grades(*VALID).replace('"correct": false', '"correct": false, "correct": true'),
        '{"grades": [], "grades": ' + grades(*VALID)[11:],
        "[" * 100_000,
    ],
)
def test_a_reply_that_deviates_is_rejected(reply: str) -> None:
    with pytest.raises(BadReply):
        parse_grades(reply, IDS)


@given(st.text(), st.integers(0, 200))
def test_a_valid_reply_with_anything_put_in_is_valid_only_if_it_says_the_same(
    extra: str, position: int
) -> None:
    reply = grades(*VALID)
    changed = reply[:position] + extra + reply[position:]
    try:
        found = parse_grades(changed, IDS)
    except BadReply:
        return
    assert found == [True, False, True]


def test_half_of_a_character_which_no_file_can_hold_is_no_answer() -> None:
    with pytest.raises(BadReply, match="surrogates not allowed"):
        parse_answers('{"answers": [{"id": "q1", "answer": "\\ud800"}]}', ["q1"])
