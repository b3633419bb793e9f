"""Names in a text: words capitalised in mid-sentence."""

import calendar
import re
from functools import cache

from precis.rehearsal.judges.words import content_stems, stem

_MONTHS = "|".join(calendar.month_name[1:])
_DAYS = "|".join(calendar.day_name)
_CAPITAL = "".join(filter(str.isupper, map(chr, range(0x530))))
"""Capital letters of the Latin, Greek and Cyrillic scripts."""
_WORD = rf"[{_CAPITAL}][\w'\u2019]+"
_NAME = re.compile(
    rf"(?<=[^\W_])[,;:]?['\u2019\")]?[ \-\u2013\u2014]+[\"\u201c(\u2018]?({_WORD})"
    rf"|\b({_MONTHS}|{_DAYS})\b"
    rf"|\A({_WORD})(?=(?:,? (?:&|and|of|the|de|van|von))* [{_CAPITAL}])"
)
_FULL_NAME = re.compile(rf"\b{_WORD}(?: {_WORD})+")

_TITLES = """
mr mrs ms miss mx dr doctor prof professor sir dame lord lady rev reverend bishop pastor rabbi imam
saint king queen prince princess mayor president minister senator governor ambassador councillor
councilor councilwoman councilman judge justice attorney captain colonel commander major general
lieutenant sergeant corporal officer inspector detective sheriff chief constable director manager
chair chairman chairwoman principal headmaster teacher coach chef nurse engineer artist author
farmer baker father mother brother sister uncle aunt grandmother grandfather yesterday today
"""


@cache
def title_stems() -> frozenset[str]:
    """Return the stems of titles, which precede a surname in place of a first name."""
    return frozenset(map(stem, _TITLES.split()))


def full_names(text: str) -> tuple[tuple[str, str], ...]:
    """Return the stem of each other word of a full name, with that of its last, by which prose
    later refers to it."""
    found: list[tuple[str, str]] = []
    for match in _FULL_NAME.finditer(text):
        *others, last = content_stems(match.group()) or [""]
        for other in others:
            found.append((other, last))
    return tuple(found)


def name_stems(text: str) -> frozenset[str]:
    """Return the stems of months, weekdays and other words capitalised in mid-sentence."""
    stems: set[str] = set()
    for match in _NAME.finditer(text):
        name = next(group for group in match.groups() if group)
        stems.update(content_stems("in May" if name == "May" else name))
    return frozenset(stems)
