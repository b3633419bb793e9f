"""Sentences and words: the one definition of each that policy, judge and report share.

Words are counted as a reader counts them, however they are joined: counting what stands between
white space would let a whole document pass as one word, its words joined by `/`, `_`, invisible
characters or nothing at all.
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache

WORDS_MAX = 350
"""The longest summary that can earn a reward, in words."""

_INVISIBLE = re.compile(
    # Unicode's Default_Ignorable_Code_Point, and the controls that are no white space.
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_UNDIVIDED = re.compile(
    # Thai and Lao; Burmese; Khmer; the scripts of the Tai; kana and Han, in all their blocks.
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u1950-\u19ff\u1a20-\u1aaf\u2e80-\u2fdf\u3005-\u3007"
    "\u3021-\u3029\u3031-\u3035\u303b\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua9e0-\ua9ff\uaa60-\uaadf\uf900-\ufaff\uff66-\uff9f\U0001b000-\U0001b16f"
    "\U00020000-\U0003ffff]+"
)
"""A run of a script that has no spaces between its words."""
# One apostrophe, as in `o'clock`, or a number's separators, as in `1,200,000.50`, part no word.
_PIECE = re.compile(r"[^\W_]+(?:['’][^\W_]+|(?:(?<=\d)[.,:](?=\d)[^\W_]+){1,3})?")
_RUN_MAX = 30
"""Longer runs of letters are hardly ever words (in German, one in thousands)."""
_LETTERS_A_WORD = 5
_COPIED_MIN = 5
"""The fewest tokens in a row that count as copied."""


def write_number(value: float) -> str:
    """Return a number with four significant digits, without trailing zeros: `0.5`, `12,346`."""
    return f"{value:,.0f}" if 9999.5 <= abs(value) < 1e15 else f"{value:.4g}"


def write_dollars(usd: float) -> str:
    """Return dollars with two decimals, and at least two digits that count: `$1.20`, `$0.0034`."""
    digits = 1 - math.floor(math.log10(usd)) if usd > 1e-6 else 2  # less is a rounding error
    return f"${usd:,.{max(2, digits)}f}"


def count_words(text: str) -> int:
    """Return the number of words, as the 350-word limit counts them.

    A word is a run of letters and digits, once what can't be seen is left out; one of more than
    30 characters counts as many as it would have at five letters each. Text in scripts without
    spaces, such as Japanese, Chinese or Thai, is divided by ICU's dictionaries. Only empty text
    has no words: signs alone are one.
    """
    words = 0
    for piece in pieces(text):
        words += 1 if len(piece) <= _RUN_MAX else -(-len(piece) // _LETTERS_A_WORD)
    return words or int(bool(text.strip()))


def count_glued(text: str, vocabulary: Collection[str]) -> int:
    """Count the words that a text has more if those that join several of a vocabulary's count as
    several: `thefox` where it holds `the` and `fox`, in lower case, but not `thefox`."""
    longest = min(_RUN_MAX, max(map(len, vocabulary), default=0))
    glued = 0
    for piece in pieces(text.lower()):
        if piece not in vocabulary:
            bare = "".join(filter(str.isalnum, piece))
            glued += _parts(bare, vocabulary, longest) - 1
    return glued


def pieces(text: str) -> Iterator[str]:
    """Yield the words of a text, even if joined; those of undivided scripts come last."""
    if text.isascii():
        yield from _PIECE.findall(_INVISIBLE.sub("", text))
        return
    visible = _INVISIBLE.sub("", unicodedata.normalize("NFKC", text))
    divided = _UNDIVIDED.sub(" ", visible)
    # Combining marks don't part a word: to `re` they are no letters.
    plain = {}
    for character in set(divided):
        if unicodedata.category(character).startswith("M"):
            plain[ord(character)] = "x"
    yield from _PIECE.findall(divided.translate(plain))
    for run in _UNDIVIDED.findall(visible):
        from icu4py.breakers import WordBreaker  # few texts need it, and no GPU's machine has it

        for segment in WordBreaker(run, "en"):
            if any(map(str.isalnum, segment)):
                yield segment


def _parts(piece: str, vocabulary: Collection[str], longest: int) -> int:
    """Return the fewest words of a vocabulary that make up a piece; 1 where they can't."""
    fewest: list[int | None] = [0]
    for end in range(1, len(piece) + 1):
        best: int | None = None
        for start in range(max(0, end - longest), end):
            count = fewest[start]
            if count is None or piece[start:end] not in vocabulary:
                continue
            if best is None or count + 1 < best:
                best = count + 1
        fewest.append(best)
    return fewest[-1] or 1


_COMBINING = "".join(
    mark for mark in map(chr, range(0x300, 0xFE30)) if unicodedata.category(mark)[0] == "M"
)
"""Vowel signs and the like: parts of a word that `\\w` does not know."""
_TOKEN = re.compile(rf"[\w{_COMBINING}]+(?:[.,:'’\-][\w{_COMBINING}]+)*")
_STRETCH = re.compile(f"({_UNDIVIDED.pattern})")
_ASCII_TOKEN = re.compile(r"[a-z0-9]+(?:[.,:'\-][a-z0-9]+)*")
_ABBREVIATION = re.compile(
    r"(?:\b(?:[A-Z]|Mr|Mrs|Ms|Dr|Prof|St|No|Inc|Ltd|Co|Jr|Sr|vs|etc|e\.g|i\.e|[ap]\.m|approx))\.$"
)
_ABBREVIATION_MAX = 16
"""More characters than an abbreviation has, with its full stop and the text before it."""
# A full stop of a script with spaces counts before a space; one of Chinese or Japanese anywhere.
_BOUNDARY = re.compile(
    r"(?<=[.!?…؟۔।॥։።။។])[\"”’»)]?\s+(?=[\"“‘«(]?[^\W_])|(?<=[。！？｡])[」』”’）]*\s*|\n"
)
_OPENING = '"“‘«('


Spans = list[tuple[int, int]]
"""The places where words begin and end in a text."""

_WORD = re.compile(r"\w+(?:['’.,:]\w+)*")
_COMMON_SHARE = 0.05
_COMMON_MIN = 3
_ALIKE_LETTERS = 5
"""Words that share this many first letters may be one: `approved`, `approval`."""


def common_words(texts: Iterable[str]) -> frozenset[str]:
    """Return the words that are in many of these texts, and so decide nothing."""
    counts: Counter[str] = Counter()
    known = 0
    for text in texts:
        counts.update(set(_WORD.findall(text.casefold())))
        known += 1
    least = max(_COMMON_MIN, _COMMON_SHARE * known)
    return frozenset(word for word, count in counts.items() if count >= least)


def decisive_words(question: str, gold: str, answer: str, common: Collection[str]) -> Spans:
    """Return where an answer has the words that the golden answer adds to its question."""
    asked = set(_WORD.findall(question.casefold()))
    wanted = set(_WORD.findall(gold.casefold())).difference(asked, common)
    found = []
    for match in _WORD.finditer(answer):
        word = match.group().casefold()
        for other in wanted:
            letters = max(_ALIKE_LETTERS, len(word) - 3, len(other) - 3)
            begins_alike = len(word) >= letters and word[:letters] == other[:letters]
            if word == other or begins_alike:
                found.append(match.span())
                break
    return found


def tokens(text: str) -> list[str]:
    """Lower-case alphanumeric tokens; `3.5`, `12:30`, `o'clock` and `re-opened` stay whole.

    Where a script has no spaces between words, every two neighbouring characters are a token.
    """
    lower = text.lower().replace("_", " ")
    if lower.isascii():
        return _ASCII_TOKEN.findall(lower)
    found: list[str] = []
    for token in _TOKEN.findall(lower):
        for place, part in enumerate(_STRETCH.split(token)):
            if place % 2 == 1:  # a stretch without spaces
                found += [part[at : at + 2] for at in range(max(1, len(part) - 1))]
            elif part:
                found.append(part)
    return found


def sentences(text: str) -> list[str]:
    """Split into sentences, in order, without surrounding white space.

    A line break ends a sentence, so headings and list items are separate. Initials and the
    usual abbreviations do not, nor does a stop before a small letter.
    """
    found: list[str] = []
    start = 0
    for boundary in _BOUNDARY.finditer(text):
        closing = text[boundary.start() : boundary.end()].rstrip()
        # No more of the text than decides, so that many stops that end nothing cost no more.
        before = text[max(start, boundary.start() - _ABBREVIATION_MAX) : boundary.start()] + closing
        after = text[boundary.end() : boundary.end() + 2]
        # The stop of an abbreviation, or before a small letter, does not end a sentence.
        is_short = bool(_ABBREVIATION.search(before.strip()))
        goes_on = is_short or after.lstrip(_OPENING)[:1].islower()
        if "\n" not in boundary.group() and goes_on:
            continue
        piece = text[start : boundary.start()] + closing
        if piece.strip():
            found.append(piece.strip())
        start = boundary.end()
    tail = text[start:].strip()
    if tail:
        found.append(tail)
    return found


def count_of(count: int, noun: str) -> str:
    """Return a count with a regular noun: `1 document`, `3,500 documents`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def copied_share(text: str, source: str) -> float:
    """Return the share of a text's tokens that stand in a source word for word, five or more in a
    row.

    Shorter runs are a language's own: `at the end of`.
    """
    own = tokens(text)
    runs = _runs(source)
    copied = [False] * len(own)
    for start in range(len(own) - _COPIED_MIN + 1):
        if tuple(own[start : start + _COPIED_MIN]) in runs:
            copied[start : start + _COPIED_MIN] = [True] * _COPIED_MIN
    return sum(copied) / len(own) if own else 0.0


@lru_cache(maxsize=32)  # every summary of a document is compared with it
def _runs(text: str) -> frozenset[tuple[str, ...]]:
    own = tokens(text)
    return frozenset(
        tuple(own[start : start + _COPIED_MIN]) for start in range(len(own) - _COPIED_MIN + 1)
    )
