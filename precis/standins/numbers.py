"""Numbers, dates and times of day in one form, however a text writes them."""

import calendar
import re
import unicodedata
from collections.abc import Iterator

_UNITS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
_TEENS = "fifteen sixteen seventeen eighteen nineteen"
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_ORDINALS = (
    "fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth"
    " fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"
)
_SMALL = (
    {word: value for value, word in enumerate(f"{_UNITS} {_TEENS}".split())}
    | {word: 10 * value for value, word in enumerate(_TENS.split(), start=2)}
    | {word: value for value, word in enumerate(_ORDINALS.split(), start=4)}
)
_SCALES = {
    "dozen": 12,
    "hundred": 100,
    "thousand": 1_000,
    "million": 1_000_000,
    "billion": 1_000_000_000,
}
_MONTHS = [month.lower() for month in calendar.month_name if month]
_SHORT_MONTH = re.compile(r"\b(jan|feb|mar|apr|jun|jul|aug|sep|oct|nov|dec)t?\b\.?(?=\s*\d)")
_SHORT_MONTH_AFTER = re.compile(r"(?<=\d )(jan|feb|mar|apr|jun|jul|aug|sep|oct|nov|dec)t?\b\.?")
_ISO_DATE = re.compile(r"\b(\d{4})-(\d\d)-(\d\d)\b")
_HOURS = f"\\d{{1,2}}|{'|'.join(_UNITS.split()[1:13])}"
_PAST = re.compile(rf"\b(half|quarter) (past|to) ({_HOURS})\b")
_CLOCK = re.compile(r"\b(\d{1,2})(?:[.:](\d\d))?\s*([ap])\.?\s?m\b\.?|\b(\d{1,2}):(\d\d)\b")
_AND_A_HALF = re.compile(rf"\b({_HOURS}) and a half\b")
_ON_THE_HOUR = re.compile(rf"\b({_HOURS}) o['’]clock")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_SEPARATED = re.compile(r"(?<=\d)[,\u202f\u00a0'’](?=\d{3}(?!\d))")
_ORDINAL = re.compile(r"\b(\d+)(?:st|nd|rd|th)\b")


def unify_numbers(text: str) -> str:
    """A text in small letters, with its numbers, dates and times of day in one form.

    `7:00 pm` and `seven o'clock`, `half past ten` and `10.30 am`, `5 Nov.` and `November 5th`,
    `1,200` and `twelve hundred`, `1.2 million` and `1,200,000`, `37 %` and `37 per cent` become
    the same words. A time of day is on the clock of twelve hours.
    """
    text = text.lower()
    if not text.isascii():
        text = "".join(map(_western_digit, text))
    text = _SEPARATED.sub("", text)
    text = _ISO_DATE.sub(_dated, text)
    text = _SHORT_MONTH_AFTER.sub(_month, _SHORT_MONTH.sub(_month, text))
    text = _AND_A_HALF.sub(
        lambda match: f"{_value(match[1])}.5", text.replace("-and-a-", " and a ")
    )
    text = _PAST.sub(_past, text)
    text = _ON_THE_HOUR.sub(lambda match: f"{_value(match[1])}:00", text)
    text = _CLOCK.sub(_time, text.replace("noon", "12:00").replace("midnight", "12:00 am"))
    text = _ORDINAL.sub(r"\1", text)
    return re.sub(r"%|\bper cent\b", " percent", text)


def combine_numbers(words: list[str]) -> list[str]:
    """Words with each spelled-out number as one word in digits: `two`, `hundred` is `200`.

    A `one` that stands alone stays a word: it seldom counts anything.
    """
    return list(_combined(words))


def _combined(words: list[str]) -> Iterator[str]:
    value: float | None = None
    plain = ""
    for place, word in enumerate(words):
        number = _read(word)
        if value is not None and number is not None and _continues(value, number):
            value = value + number
            plain = ""
        elif word in _SCALES:
            value = (1 if value is None else value) * _SCALES[word]
            plain = ""
        elif value is not None and word == "and" and _goes_on(value, words[place + 1 :]):
            continue
        else:
            if value is not None:
                yield plain or _digits(value)
            value = number
            plain = word if word == "one" else ""
            if number is None:
                yield word
    if value is not None:
        yield plain or _digits(value)


def _read(word: str) -> float | None:
    if word in _SMALL:
        return float(_SMALL[word])
    return float(word) if _NUMBER.fullmatch(word) else None


def _continues(value: float, number: float) -> bool:
    """Whether a number adds to the one before it, as in `twenty three` or `two hundred five`."""
    if 20 <= value % 100 < 100 and value % 10 == 0:
        return 0 < number < 10
    return value >= 100 and value % 100 == 0 and 0 < number < 100 and value % 1000 != 0


def _goes_on(value: float, rest: list[str]) -> bool:
    number = _read(rest[0]) if rest else None
    return number is not None and value >= 100 and value % 100 == 0 and number < 100


def _digits(value: float) -> str:
    return f"{value:.10g}" if value < 1e9 else f"{value:.0f}"


def _western_digit(character: str) -> str:
    return str(unicodedata.digit(character, character))


def _dated(match: re.Match[str]) -> str:
    year, month, day = map(int, match.groups())
    return f"{day} {_MONTHS[month - 1]} {year}" if 1 <= month <= 12 else match.group()


def _month(match: re.Match[str]) -> str:
    return next(month for month in _MONTHS if month.startswith(match[1]))


def _value(word: str) -> int:
    return _SMALL[word] if word in _SMALL else int(word)


def _past(match: re.Match[str]) -> str:
    hour = _value(match[3])
    minutes = 30 if match[1] == "half" else 15
    if match[2] == "to":
        return f"{(hour - 2) % 12 + 1}:{60 - minutes:02}"
    return f"{hour}:{minutes:02}"


def _time(match: re.Match[str]) -> str:
    hour = int(match[1] or match[4])
    minutes = match[2] or match[5] or "00"
    half = f" {match[3]}m" if match[3] else " pm" if hour > 12 else ""
    return f"{(hour - 1) % 12 + 1}:{minutes}{half}"
