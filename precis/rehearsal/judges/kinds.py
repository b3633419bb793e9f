"""The kind of thing that a question asks for, and the test whether a sentence has one."""

import re
from functools import lru_cache
from typing import Literal

Kind = Literal["person", "moment", "number", "place", "reason", "name", "thing"]

_MONTH = "(?:January|February|March|April|May|June|July|August|September|October|November|December)"
_DAY = "(?:Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)"
_NUMBER_WORD = (
    r"(?:twen|thir|for|fif|six|seven|eigh|nine)ty|two|three|four|five|six|seven|eight|nine|ten"
    r"|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen|dozen|hundred|thousand|million|half"
    r"|third|quarter|once|twice"
)
_QUESTIONS: tuple[tuple[Kind, str], ...] = (
    ("moment", r"when|how soon|(?:what|which) (?:\w+ )?(?:date|day|month|year|season|time|hour)"),
    (
        "number",
        r"how (?:much|many|long|far|old|often|large|big|high|tall|wide|deep|heavy|fast|early|late)"
        r"|(?:what|which) (?:\w+ )?(?:percentage|share|proportion|number|price|sum|amount|cost|fee"
        r"|score|size|maximum|minimum|average|age|length|temperature|distance)",
    ),
    ("reason", r"why|(?:what|which) (?:\w+ ){0,3}(?:reason|cause|caused|motive|purpose|prompted)"),
    ("person", r"who|whom|whose"),
    ("place", r"where"),
    ("name", r"which|(?:what) (?:\w+ ){0,3}(?:name|called|title)"),
)
_ASKED = [(kind, re.compile(rf"\b(?:{words})\b", re.IGNORECASE)) for kind, words in _QUESTIONS]
_SHOWN: dict[Kind, re.Pattern[str]] = {
    "person": re.compile(
        r"(?<=[a-z,;] )[A-Z][a-z]|\A[A-Z]\w+ (?:[A-Z]|\w+ed\b)|\b(?:[Hh]e|[Ss]he)\b"
    ),
    "name": re.compile(r"(?<=[a-z,;] )[A-Z][a-z]|[“\"]"),
    "moment": re.compile(
        rf"\b(?:{_MONTH}|{_DAY}|spring|summer|autumn|winter|noon|midnight|1[5-9]\d\d|20\d\d"
        r"|yesterday|tomorrow|morning|evening|night|week|year|month|day|\d+:\d\d)\b"
    ),
    "number": re.compile(rf"\d|\b(?:{_NUMBER_WORD})\b"),
    "place": re.compile(r"\b(?:in|at|on|near|from|to|behind|under|inside|beside|along) "),
    "reason": re.compile(
        r"\b(?:because|since|due to|owing to|so that|in order|as|after|reason|cause[ds]?|grounds"
        r"|therefore|to avoid|to prevent|to ensure|would have|wanted|meant|led)\b"
    ),
}


def kind_asked(question: str) -> Kind:
    """Return the kind of thing that a question asks for; the question word that comes first
    decides."""
    found = []
    for rank, (kind, pattern) in enumerate(_ASKED):
        match = pattern.search(question)
        if match:
            found.append((match.start(), rank, kind))
    return min(found)[2] if found else "thing"


@lru_cache(maxsize=65_536)
def shows(sentence: str, kind: Kind) -> bool:
    """Return whether a sentence has something of a kind; for a `thing`, always False."""
    return kind != "thing" and bool(_SHOWN[kind].search(sentence))
