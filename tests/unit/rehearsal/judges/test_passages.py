"""The judge that checks the other one: it reads windows of text, and grades in another way."""

import pytest

from precis.environments.summaries.judge.prompts import UNANSWERABLE
from precis.rehearsal.judges.passages import answer, grade

FILLER = "People like the place for many reasons, as they always did, and say so when asked. "
TEXT = (
    FILLER * 4
    + "The Linden Street bakery was opened by Ada Kessler in 1987. It sells 640 loaves a day. "
    + FILLER * 4
    + "The oven was replaced in March 2019 because the old one had cracked. "
    + FILLER * 4
)


@pytest.mark.parametrize(
    ("question", "golden"),
    [
        ("Who opened the Linden Street bakery?", "Ada Kessler"),
        ("How many loaves does the bakery sell a day?", "640 loaves"),
        ("When was the oven replaced?", "March 2019"),
    ],
)
def test_it_finds_the_window_that_answers_and_grades_it_right(question: str, golden: str) -> None:
    found = answer(TEXT, question)
    assert golden in found
    assert grade(question, golden, found)


@pytest.mark.parametrize("text", ["", FILLER, "¿?"])
def test_it_declines_what_the_text_does_not_say(text: str) -> None:
    assert answer(text, "Which team won the regatta at Bridgewater?") == UNANSWERABLE


@pytest.mark.parametrize(
    "given", [UNANSWERABLE, "", "Tom Fry opened it in 1987.", "It sells 460 loaves a day."]
)
def test_what_lacks_the_golden_answer_is_wrong(given: str) -> None:
    assert not grade("Who opened the bakery?", "Ada Kessler", given)
    assert not grade("How many loaves does it sell?", "640 loaves", given)


def test_a_word_counts_in_any_of_its_forms() -> None:
    assert grade("What was found?", "Two wooden bridges.", "They found a wooden bridge, then two.")


@pytest.mark.parametrize(
    ("golden", "given"),
    [
        ("Ada Kessler opened it.", "It was opened by Ada Kessner, whom everybody knew."),
        ("It was opened in March.", "It was opened in May, as everybody knew."),
        ("Seven loaves were sold.", "On that day eleven loaves were sold."),
        ("The oven was not replaced.", "As planned, the oven was replaced. Nobody was told."),
        ("The oven was replaced.", "In the end the oven was never replaced."),
    ],
)
def test_another_name_number_or_the_opposite_is_wrong(golden: str, given: str) -> None:
    assert not grade("What happened?", golden, given)


def test_a_number_counts_in_words_and_in_digits() -> None:
    assert grade("How many loaves?", "Seven loaves were sold.", "They sold 7 loaves.")


@pytest.mark.parametrize("question", ["", "?", "¿?"])
def test_a_question_without_words_has_no_answer(question: str) -> None:
    assert answer(TEXT, question) == UNANSWERABLE
