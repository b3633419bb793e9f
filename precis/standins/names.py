"""Names in a text: what is capitalised where no sentence begins."""

import re
from functools import lru_cache

from precis.standins.words import content_stems

_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_DAYS = "Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday"
_NAME = re.compile(
    r"(?<=[^\W_])[,;]?['\u2019\")]?[ \-]+[\"\u201c(\u2018]?([A-Z][\w'\u2019]+)"
    rf"|\b({_MONTHS}|{_DAYS})\b"
    r"|\A([A-Z][\w'\u2019]+)(?=(?:,? (?:&|and|of|the|de|van|von))* [A-Z])"
)


@lru_cache(maxsize=4096)
def name_stems(text: str) -> frozenset[str]:
    """The stems of the words that a text capitalises in mid-sentence, and of months and weekdays."""
    found = (match.group(match.lastindex) for match in _NAME.finditer(text))
    return frozenset(one for name in found for one in content_stems(name if name != "May" else "in May"))
