"""Spans of a sentence that could answer a question, by the kind of thing the question asks for."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from precis.standins.words import is_content, stem

Kind = Literal[
    "person", "name", "time", "moment", "money", "share", "amount", "place", "reason", "manner",
    "thing",
]  # fmt: skip

_MONTH = "(?:January|February|March|April|May|June|July|August|September|October|November|December)"
_DAY = "(?:Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)s?"
_NUMBER = (
    r"(?:\d[\d,]*(?:\.\d+)?|\b(?:(?:twen|thir|for|fif|six|seven|eigh|nine)ty(?:-\w+)?|two|three"
    r"|four|five|six|seven|eight|nine|ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen"
    r"|a (?:dozen|hundred|thousand))\b)"
)
_SCALE = r"(?: (?:hundred|thousand|million|billion))?"
_CLOCK = r"\b\d{1,2}(?:[:.]\d\d)? ?[ap]\.?m\b\.?|\b\d{1,2}:\d\d\b|\b(?:noon|midnight|dawn|dusk)\b"
_NAME = (
    r"(?:(?:Mr|Mrs|Ms|Dr|Prof|St)\. )?[A-Z][\w'\u2019-]*"
    r"(?: (?:(?:of|the|and|de|van|von|&) (?:the )?)?[A-Z0-9][\w'\u2019-]*)*"
)
_OBJECT = r"(?:reason|causes?|motive|explanation|purpose)"
_SUM = r"(?:price|sum|amount|cost|fee|budget|fine|grant|reward|salary|rent|charge)"
_SIZE = r"(?:number|temperature|age|distance|speed|depth|height|weight|length)"
_SITE = r"(?:place|town|village|street|room|building|location)"
_VERB = r"(?:did|do|does|was|were|is|are|will|can|could|has|have|had|should|must|would)"

_QUESTIONS: tuple[tuple[Kind, str], ...] = (
    ("time", r"(?:what|which) (?:time|hour)|how (?:early|late)"),
    ("moment", r"when|how soon|(?:what|which) (?:\w+ )?(?:date|day|month|year|season|weekday)"),
    ("share", r"(?:what|which) (?:percentage|share|proportion|fraction)"),
    ("money", rf"how much|what (?:(?:is|was) the )?(?:\w+ )?{_SUM}|which {_SUM}"),
    ("amount", rf"how (?!{_VERB})\w+|what (?:(?:is|was) the )?(?:\w+ )?{_SIZE}"),
    ("reason", rf"why|what (?:(?:is|was|were|are) )?(?:the |its |his |her )?(?:\w+ )?{_OBJECT}"
               r"|what (?:caused|prompted|led|made|explains)"),
    ("person", r"who|whom|whose|(?:what|which) (?:person|man|woman)"),
    ("place", rf"where|in (?:what|which) {_SITE}"),
    ("manner", r"how"),
    ("name", r"which|what (?:company|firm|organi[sz]ation|school|bank|club|name|title)"
             r"|what(?= (?:is|was|were|are) .{0,60}?(?:called|named?|titled?))"),
    ("thing", r"what"),
)  # fmt: skip
_ASKED = [(kind, re.compile(rf"\b(?:{words})\b", re.IGNORECASE)) for kind, words in _QUESTIONS]

_BECAUSE = r"because of|because|due to|owing to|thanks to|on account of"
_INDEED = r"(?!(?:a|an|the|its|their|his|her|this|that|[A-Z]\w*|\d+)\b)"
_PLACED = (
    r"in|at|on|near|beside|behind|outside|inside|along|under|beneath|below|above|between|opposite"
    r"|beyond|within|across|aboard|from|into|off|to (?=the|an?|[A-Z])"
)
_PLACE_ENDS = (
    r"during|for|because|after|before|when|while|by|with|until|since|as|is|was|were|are|has|had"
    r"|will|and|but|once"
)
_TIERS: dict[Kind, tuple[str, ...]] = {
    "time": (_CLOCK,),
    "moment": (
        rf"(?:{_DAY},? )?\b\d{{1,2}} {_MONTH}\b(?:,? \d{{4}})?"
        rf"|(?:{_DAY},? )?\b{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?\b(?:,? \d{{4}})?"
        rf"|\b{_MONTH}(?: of)?(?: \d{{4}})?\b|\b{_DAY}\b"
        rf"|(?:(?:late|early|the|mid)[ -])?\b(?:spring|summer|autumn|winter)\b(?: (?:of )?\d{{4}})?"
        rf"|\b1[5-9]\d\d\b|\b20\d\d\b|{_CLOCK}",
    ),
    "share": (
        rf"{_NUMBER} ?(?:%|percent|per cent)"
        r"|\b(?:\w+ )?(?:half|thirds?|quarters?|fifths?)\b",
    ),
    "money": (
        rf"[$£€]\d[\d,]*(?:\.\d+)?{_SCALE}|{_NUMBER}{_SCALE} (?:dollars|euros|pounds|cents)",
        rf"{_NUMBER}{_SCALE}(?: ?%|[ -][a-z][\w-]*)?",
    ),
    "amount": (rf"{_NUMBER}{_SCALE}(?: ?%|[ -][a-z][\w-]*)?",),
    "person": (_NAME,),
    "name": (rf"[“\"][^”\"]+[”\"]|{_NAME}",),
    "place": (
        rf"\b(?:{_PLACED})\b (?:(?!(?:{_PLACE_ENDS})\b)[\w'\u2019-]+(?:\. (?=[A-Z])| |\b))+",
    ),
    "reason": (
        rf"(?i:\b(?:{_BECAUSE})\b)[^,;:.]+|\bso that [^,;:.]+",
        rf"\b(?:in order to|so as to|to) {_INDEED}\w+[^,;:.]*",
        r"(?i:\b(?:after|since|as)\b)[^,;:.]+",
    ),
    "manner": (r"\b(?:by|with|using|through|via)\b [^;:.,]+",),
    "thing": (r"[“\"][^”\"]+[”\"]",),
}  # fmt: skip
# Inside a look-ahead, so that spans may overlap and the nearest beginning can be chosen.
_COMPILED = {
    kind: [re.compile(rf"(?=({pattern}))" if kind in ("reason", "place") else f"({pattern})")
           for pattern in tiers]
    for kind, tiers in _TIERS.items()
}  # fmt: skip
_WORD = re.compile(r"[$£€]?[^\W_]+(?:[.,:'\u2019\-][^\W_]+)*%?")
_BREAK = re.compile(r"[,;:()\u2013—“”\"]|\b(?:is|are|was|were|because|while)\b")
_NOT_NAMES = re.compile(rf"(?:{_MONTH}|{_DAY}|I|The|A|An|It|In|At|On|For|This|That|But|And)\b")


@dataclass(frozen=True)
class Span:
    """A piece of a sentence, by character positions."""

    start: int
    end: int


def kind_asked(question: str) -> tuple[Kind, str]:
    """What kind of thing a question asks for, and the words that say so.

    The question word that comes first decides; of two that start together, the more special.
    """
    found: list[tuple[int, int, Kind, str]] = []
    for rank, (kind, pattern) in enumerate(_ASKED):
        if match := pattern.search(question):
            found.append((match.start(), rank, kind, match.group()))
    return min(found)[2:] if found else ("thing", "")


def candidates(sentence: str, kind: Kind, known: frozenset[str]) -> list[Span]:
    """The spans of a sentence that are of a kind and say something not known yet.

    Args:
        sentence: the sentence to read.
        kind: what is asked for.
        known: stems that the question itself has; a span of only these answers nothing.
    """
    for pattern in _COMPILED[kind]:
        found = [Span(*match.span(1)) for match in pattern.finditer(sentence)]
        if kind in ("person", "name"):
            found = [span for span in found if _is_name(sentence, span)]
        elif kind in ("place", "manner"):
            found = [_cut(sentence, span, known) for span in found]
        elif kind == "reason":
            found = [span for span in found if _begins_fresh(sentence, span, known)] or found
        if found := [span for span in found if _news(sentence[span.start : span.end], known)]:
            return found
    if kind in ("thing", "name"):
        return list(_runs(sentence, known))
    return []


def _is_name(sentence: str, span: Span) -> bool:
    """Whether capitals mean a name: not at a sentence's start, unless several words have one."""
    name = sentence[span.start : span.end]
    return not _NOT_NAMES.fullmatch(name) and (span.start > 1 or " " in name or name[0] == "“")


def _cut(sentence: str, span: Span, known: frozenset[str]) -> Span:
    """A clause up to where it returns to what the question says; empty if it begins there."""
    end = span.start
    for match in _WORD.finditer(sentence, span.start, span.end):
        word = match.group().lower()
        if is_content(word) and stem(word) in known:
            return Span(span.start, end if _news(sentence[span.start : end], known) else span.start)
        end = match.end()
    return span


def _begins_fresh(sentence: str, span: Span, known: frozenset[str]) -> bool:
    return _cut(sentence, span, known).end > span.start


def _news(piece: str, known: frozenset[str]) -> bool:
    words = [match.group().lower() for match in _WORD.finditer(piece)]
    return any(is_content(word) and stem(word) not in known for word in words)


def _runs(sentence: str, known: frozenset[str]) -> Iterator[Span]:
    """The stretches between what the question already contains, cut at clause borders."""
    start: int | None = None
    end = 0
    for match in _WORD.finditer(sentence):
        word = match.group().lower()
        fresh = is_content(word) and stem(word) not in known
        if start is not None and (
            (is_content(word) and not fresh) or _BREAK.search(sentence[end : match.end()])
        ):
            yield Span(start, end)
            start = None
        if fresh:
            start = match.start() if start is None else start
            end = match.end()
    if start is not None:
        yield Span(start, end)
