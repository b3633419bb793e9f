"""Normal forms of numbers, dates and times of day."""

import calendar
import re
import unicodedata

from precis.rehearsal.judges.units import unify_units

MAY = "maius"
"""The month: the other `may` is a stop word."""
_MONTHS = [month.lower() if month != "May" else MAY for month in calendar.month_name if month]
_NAMED = "|".join(_MONTHS)
_SHORT = r"(jan|feb|mar|apr|jun|jul|aug|sep|oct|nov|dec)t?\b\.?"
_SHORT_MONTH = re.compile(rf"\b{_SHORT}(?=[\s-]*\d)")
_SHORT_MONTH_AFTER = re.compile(rf"(?<=\d[ -]){_SHORT}")
_YEAR_FIRST = re.compile(r"\b(\d{4})([-/.])(\d\d?)\2(\d\d?)\b")
_YEAR_LAST = re.compile(r"\b(\d\d?)([/.])(\d\d?)\2(\d{4})\b")
_FIRST_DAYS = {"first": 1, "second": 2, "third": 3}
_DAY_TENS = {"twenty": 20, "thirty": 30}
_DAY = r"(?:(twenty|thirty)[ -])?(first|second|third)\b"
_DAY_BEFORE = re.compile(rf"\b{_DAY}(?= (?:day )?of (?:{_NAMED})\b)")
_DAY_AFTER = re.compile(rf"(?<=\bon )((?:{_NAMED}) )(?:the )?{_DAY}")
_UNITS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
_TEENS = "fifteen sixteen seventeen eighteen nineteen"
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_ORDINALS = (
    "fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth"
    " fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"
)
_SMALL = (
    dict(zip(f"{_UNITS} {_TEENS}".split(), range(20), strict=True))
    | dict(zip(_TENS.split(), range(20, 100, 10), strict=True))
    | dict(zip(_ORDINALS.split(), range(4, 21), strict=True))
)
_LARGE = {"thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000}
_HOURS = f"\\d{{1,2}}|{'|'.join(_UNITS.split()[1:13])}"
_PAST = re.compile(rf"\b(half|quarter) (past|to) ({_HOURS})\b")
_CLOCK = re.compile(r"\b(\d{1,2})(?:[.:](\d\d))?\s*([ap])\.?\s?m\b\.?|\b(\d{1,2}):(\d\d)\b")
_AND_A_HALF = re.compile(rf"\b({_HOURS}) and a half\b")
_ON_THE_HOUR = re.compile(rf"\b({_HOURS}) o['’]clock")
_NOON = re.compile(r"\bnoon\b")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_SEPARATED = re.compile(r"(?<=\d)[,\u2009\u202f\u00a0'’](?=\d{3}(?!\d))")
_DOTTED = re.compile(r"\b\d{1,3}(?:\.\d{3}){2,}\b(?!\.\d)")
_HALF_A = re.compile(r"\bhalf a (?=(?:million|billion)\b)")
_ORDINAL = re.compile(r"\b(\d+)(?:st|nd|rd|th)\b")


def unify_numbers(text: str) -> str:
    """Return a text in small letters, with its numbers, dates and times of day in one form: `7:00
    pm` and `seven o'clock`, `1,200` and `twelve hundred`, `37 %` and `37 per cent` become the same
    words. A time is in twelve-hour form, with a second word for the half of the day, if known:
    `14:30` is `2:30` and `2:30pm`."""
    text = text.lower()
    if not text.isascii():
        text = "".join(str(unicodedata.digit(character, character)) for character in text)
    text = _SEPARATED.sub("", text)
    text = _DOTTED.sub(lambda match: match.group().replace(".", ""), text)
    text = unify_units(unify_dates(text))
    text = _AND_A_HALF.sub(
        lambda match: f"{_value(match[1])}.5", text.replace("-and-a-", " and a ")
    )
    text = _HALF_A.sub("0.5 ", text)
    text = _PAST.sub(_past, text)
    text = _ON_THE_HOUR.sub(lambda match: f"{_value(match[1])}:00", text)
    text = _CLOCK.sub(_time, _NOON.sub("12:00 pm", text).replace("midnight", "12:00 am"))
    text = _ORDINAL.sub(r"\1", text)
    return re.sub(r"%|\bper cent\b", " percent", text)


def combine_numbers(words: list[str]) -> list[str]:
    """Return words with each spelled-out number as one word in digits: `two`, `hundred` is `200`.
    Numbers in digits that follow each other stay apart, as in `In 1900, 5 ships`. A single `one`
    stays a word: it is seldom a number."""
    found: list[str] = []
    start = 0
    while start < len(words):
        value, end = _number(words, start)
        if value is None or words[start:end] == ["one"]:
            found.append(words[start])
            end = start + 1
        else:
            found.append(f"{value:.10g}" if value < 1e9 else f"{value:.0f}")
        start = end
    return found


def _number(words: list[str], start: int) -> tuple[float | None, int]:
    """Return the number that begins at a position, or None, and its end."""
    value, end = _below_thousand(words, start)
    if value is None or end == len(words) or words[end] not in _LARGE:
        return value, end
    scale = _LARGE[words[end]]
    value *= scale
    end += 1
    after = _after_and(words, end)
    if after < len(words) and words[after] in _SMALL:
        rest, rest_end = _number(words, after)
        if rest is not None and rest < scale:
            return value + rest, rest_end
    return value, end


def _below_thousand(words: list[str], start: int) -> tuple[float | None, int]:
    """Return a number in digits, or one of words up to the hundreds; `hundred` and `million` are
    one."""
    word = words[start]
    end = start + 1
    if _NUMBER.fullmatch(word):
        value = float(word)
    elif word in _SMALL:
        value, end = _below_hundred(words, start)
    elif word in ("dozen", "hundred") or word in _LARGE:
        value = 1.0
        end = start
    else:
        return None, start
    if words[end : end + 1] == ["dozen"]:
        return 12 * value, end + 1
    if words[end : end + 1] != ["hundred"]:
        return value, end
    value *= 100
    end += 1
    after = _after_and(words, end)
    if after < len(words) and words[after] in _SMALL:
        rest, rest_end = _below_hundred(words, after)
        # `between one hundred and two hundred` are two numbers.
        if words[rest_end : rest_end + 1] != ["hundred"]:
            return value + rest, rest_end
    return value, end


def _below_hundred(words: list[str], start: int) -> tuple[float, int]:
    value = float(_SMALL[words[start]])
    end = start + 1
    if end < len(words) and value >= 20 and 0 < _SMALL.get(words[end], 0) < 10:
        return value + _SMALL[words[end]], end + 1
    return value, end


def _after_and(words: list[str], place: int) -> int:
    return place + 1 if words[place : place + 1] == ["and"] else place


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
    time = f"{(hour - 1) % 12 + 1}:{match[2] or match[5] or '00'}"
    if match[3]:
        return f"{time} {time}{match[3]}m"
    if hour == 0 or hour > 12:
        return f"{time} {time}{'am' if hour == 0 else 'pm'}"
    return time


def unify_dates(text: str) -> str:
    """Return a text in small letters, with its dates as `5 november 2023`. Accepts `5 Nov. 2023`,
    `5-Nov-2023`, `2023-11-05`, `5.11.2023`, `25/11/2023` or `11/25/2023`, and `the fifth of
    November`. `5/11/2023` is ambiguous, and becomes both."""
    text = _YEAR_FIRST.sub(
        lambda match: _dated(int(match[4]), int(match[3]), match[1]) or match[0], text
    )
    text = _YEAR_LAST.sub(_year_last, text)
    text = _SHORT_MONTH_AFTER.sub(_month, _SHORT_MONTH.sub(_month, text))
    text = _DAY_BEFORE.sub(lambda match: str(_day(match[1], match[2])), text)
    return _DAY_AFTER.sub(lambda match: f"{match[1]}{_day(match[2], match[3])}", text)


def _year_last(match: re.Match[str]) -> str:
    first, separator, second, year = match.groups()
    day_first = _dated(int(first), int(second), year)
    month_first = _dated(int(second), int(first), year) if separator == "/" else ""
    if first == second:
        return day_first or match.group()
    return " ".join(filter(None, (day_first, month_first))) or match.group()


def _dated(day: int, month: int, year: str) -> str:
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return ""
    return f"{day} {_MONTHS[month - 1]} {year}"


def _month(match: re.Match[str]) -> str:
    return next(month for month in _MONTHS if month.startswith(match[1]))


def _day(tens: str | None, unit: str) -> int:
    return _DAY_TENS.get(tens or "", 0) + _FIRST_DAYS[unit]
