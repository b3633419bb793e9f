"""The judge that checks the other one: it reads windows of text, and grades in another way."""

import pytest

from precis.environments.summaries.judge.prompts import UNANSWERABLE
from precis.rehearsal.judges.passages import answer, grade

FILLER = "People like the place for many reasons, as they always did, and say so when asked. "


@pytest.mark.parametrize("text", ["", FILLER, "¿?"])
def test_it_declines_what_the_text_does_not_say(text: str) -> None:
    assert answer(text, "Which team won the regatta at Bridgewater?") == UNANSWERABLE


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
