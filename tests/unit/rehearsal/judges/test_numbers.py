"""Numbers, dates, times and amounts in one form, however a text writes them."""

import pytest

from precis.rehearsal.judges.words import words_of


@pytest.mark.parametrize(
    "written",
    [
        *("25 November 2023", "November 25th, 2023", "the twenty-fifth of November, 2023"),
        *("2023-11-25", "2023/11/25", "25/11/2023", "11/25/2023", "25.11.2023"),
        *("25-Nov-2023", "25 Nov. 2023", "Nov. 25th, 2023"),
    ],
)
def test_a_date_is_the_same_words_in_any_form(written: str) -> None:
    assert {"25", "november", "2023"} == set(words_of(written)) - {"the", "of"}


@pytest.mark.parametrize(
    ("written", "words"),
    [
        # An ordinal is a day only in a date.
        ("the first of May", "the 1 of maius"),
        ("the twenty-second of November", "the 22 of november"),
        ("on March the third", "on march 3"),
        ("a second march on the capital", "a second march on the capital"),
        ("5.11.2023", "5 november 2023"),
        ("13/13/2023", "13 13 2023"),
        # A time has its half of the day where that is known.
        ("14:30", "2:30 2:30pm"),
        ("2.30 p.m.", "2:30 2:30pm"),
        ("00:31", "12:31 12:31am"),
        ("seven o'clock", "7:00"),
        ("noon", "12:00 12:00pm"),
        ("midnight", "12:00 12:00am"),
        ("afternoon", "afternoon"),
    ],
)
def test_days_and_times_are_written_in_one_form(written: str, words: str) -> None:
    assert " ".join(words_of(written)) == words
