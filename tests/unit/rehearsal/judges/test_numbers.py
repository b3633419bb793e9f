"""Numbers, dates, times and amounts in one form, however a text writes them."""

import pytest

from precis.rehearsal.judges.words import words_of


@pytest.mark.parametrize(
    ("written", "number"),
    [
        ("two thousand three hundred and forty-five", "2345"),
        ("three million two hundred thousand and four", "3200004"),
        ("one hundred and five thousand", "105000"),
        ("twelve hundred", "1200"),
        ("two dozen", "24"),
        ("half a million", "500000"),
        ("two and a half million", "2500000"),
        ("1.200.000", "1200000"),
        ("1\u2009200", "1200"),
    ],
)
def test_a_number_is_one_word_in_digits(written: str, number: str) -> None:
    assert words_of(written) == (number,)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("In 1900, 5 ships came", ["1900", "5"]),
        ("scores of 20, 5 and 30", ["20", "5", "30"]),
        ("200 and 5 others", ["200", "5"]),
        ("between one hundred and two hundred", ["100", "200"]),
        ("between one thousand and two thousand", ["1000", "2000"]),
        ("two dozen and three others", ["24", "3"]),
    ],
)
def test_numbers_that_follow_each_other_stay_apart(text: str, numbers: list[str]) -> None:
    assert [word for word in words_of(text) if word.isdigit()] == numbers


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


def test_of_a_date_that_can_be_read_in_two_ways_both_are_kept() -> None:
    assert set(words_of("5/11/2023")) == {"5", "november", "11", "maius", "2023"}


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


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("$1.5M", ("1500000", "dollarsign")),
        ("US$ 1.5 million", ("1500000", "dollarsign")),
        ("37,500€", ("37500", "eurosign")),
        ("£250k", ("250000", "poundsign")),
        ("EUR 450", ("450", "eur")),
        ("3km", ("3", "km")),
        ("5G", ("5g",)),
    ],
)
def test_a_unit_is_a_word_after_its_number(written: str, words: tuple[str, ...]) -> None:
    assert words_of(written) == words
