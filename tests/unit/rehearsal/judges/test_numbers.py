"""Numbers, dates, times and amounts in one form, however a text writes them."""

import pytest

from precis.rehearsal.judges.words import words_of


@pytest.mark.parametrize(
    "written",
    [
        "25 May 2023",
        "May 25th, 2023",
        "the twenty-fifth of May, 2023",
        "2023-05-25",
        "2023/5/25",
        "25/05/2023",
        "5/25/2023",
        "25.5.2023",
    ],
)
def test_a_date_is_the_same_words_in_any_form(written: str) -> None:
    assert {"25", "maius", "2023"} == set(words_of(written)) - {"the", "of"}


@pytest.mark.parametrize("written", ["5-Nov-2023", "5 Nov. 2023", "Nov. 5th, 2023", "5.11.2023"])
def test_a_month_may_be_short_or_a_number(written: str) -> None:
    assert {"5", "november", "2023"} == set(words_of(written))


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("the first of May", ("the", "1", "of", "maius")),
        ("the twenty-second of November", ("the", "22", "of", "november")),
        ("on March the third", ("on", "march", "3")),
        ("a second march on the capital", ("a", "second", "march", "on", "the", "capital")),
        ("13/13/2023", ("13", "13", "2023")),
    ],
)
def test_an_ordinal_is_a_day_only_in_a_date(written: str, words: tuple[str, ...]) -> None:
    assert words_of(written) == words


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("14:30", ("2:30", "2:30pm")),
        ("2.30 p.m.", ("2:30", "2:30pm")),
        ("00:31", ("12:31", "12:31am")),
        ("seven o'clock", ("7:00",)),
        ("noon", ("12:00", "12:00pm")),
        ("midnight", ("12:00", "12:00am")),
        ("afternoon", ("afternoon",)),
    ],
)
def test_a_time_has_its_half_of_the_day_where_that_is_known(
    written: str, words: tuple[str, ...]
) -> None:
    assert words_of(written) == words
