"""Dates in one form, however a text writes them."""

import calendar
import re

MAY = "maius"
"""The month: the other `may` is a word that says nothing."""
_MONTHS = [month.lower() if month != "May" else MAY for month in calendar.month_name if month]
_NAMED = "|".join(_MONTHS)
_SHORT = r"(jan|feb|mar|apr|jun|jul|aug|sep|oct|nov|dec)t?\b\.?"
_SHORT_MONTH = re.compile(rf"\b{_SHORT}(?=[\s-]*\d)")
_SHORT_MONTH_AFTER = re.compile(rf"(?<=\d[ -]){_SHORT}")
_YEAR_FIRST = re.compile(r"\b(\d{4})([-/.])(\d\d?)\2(\d\d?)\b")
_YEAR_LAST = re.compile(r"\b(\d\d?)([/.])(\d\d?)\2(\d{4})\b")
_FIRST_DAYS = {"first": 1, "second": 2, "third": 3}
_TENS = {"twenty": 20, "thirty": 30}
_DAY = r"(?:(twenty|thirty)[ -])?(first|second|third)\b"
_DAY_BEFORE = re.compile(rf"\b{_DAY}(?= (?:day )?of (?:{_NAMED})\b)")
_DAY_AFTER = re.compile(rf"(?<=\bon )((?:{_NAMED}) )(?:the )?{_DAY}")


def unify_dates(text: str) -> str:
    """Return a text in small letters, with its dates as `5 november 2023`.

    They may be written as `5 Nov. 2023`, `5-Nov-2023`, `2023-11-05`, `5.11.2023`, `25/11/2023` or
    `11/25/2023`, and `the fifth of November`. Of `5/11/2023` nobody knows which is the month: it
    becomes both.
    """
    text = _YEAR_FIRST.sub(_year_first, text)
    text = _YEAR_LAST.sub(_year_last, text)
    text = _SHORT_MONTH_AFTER.sub(_month, _SHORT_MONTH.sub(_month, text))
    text = _DAY_BEFORE.sub(lambda match: str(_day(match[1], match[2])), text)
    return _DAY_AFTER.sub(lambda match: f"{match[1]}{_day(match[2], match[3])}", text)


def _year_first(match: re.Match[str]) -> str:
    year, _, month, day = match.groups()
    return _dated(int(day), int(month), year) or match.group()


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
    return _TENS.get(tens or "", 0) + _FIRST_DAYS[unit]
