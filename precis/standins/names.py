"""Names in a text: what is capitalised where no sentence begins."""

import calendar
import re
from functools import lru_cache

from precis.standins.words import content_stems

_MONTHS = "|".join(month for month in calendar.month_name if month)
_DAYS = "|".join(calendar.day_name)
_NAME = re.compile(
    r"(?<=[^\W_])[,;]?['\u2019\")]?[ \-]+[\"\u201c(\u2018]?([A-Z][\w'\u2019]+)"
    rf"|\b({_MONTHS}|{_DAYS})\b"
    r"|\A([A-Z][\w'\u2019]+)(?=(?:,? (?:&|and|of|the|de|van|von))* [A-Z])"
)


@lru_cache(maxsize=4096)
def name_stems(text: str) -> frozenset[str]:
    """The stems of months, weekdays and whatever else a text capitalises in mid-sentence."""
    stems: set[str] = set()
    for match in _NAME.finditer(text):
        name = next(group for group in match.groups() if group)
        stems.update(content_stems("in May" if name == "May" else name))
    return frozenset(stems)
