"""Stems, stop words and number forms: the reader's idea of when two words are the same."""

import re
from functools import lru_cache

from precis.text import tokens

_STOP = frozenset(
    tokens(
        """
        a about according after all also although am among an and any anyone are as at be
        because been before being but by called can could did do does doing done down during
        each either everyone everything exactly far for from further get got had has have
        having he her here hers him his how however i if in into is it its itself just long
        many may me might more most much my named no nobody nor not nothing of off often on
        once only or other our out over own per said same say says she should since so some
        someone something such than that the their them then there these they this those
        through to too under until up us very was we were what when where which while who whom
        whose why will with would you your
        """
    )
)
_UNITS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
_TEENS = "fifteen sixteen seventeen eighteen nineteen"
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_NUMBERS = {word: str(value) for value, word in enumerate(f"{_UNITS} {_TEENS}".split())} | {
    word: str(10 * value) for value, word in enumerate(_TENS.split(), start=2)
}
_SCALES = {"thousand": 1_000, "million": 1_000_000, "billion": 1_000_000_000}
_SUFFIXES = ("ations", "ation", "ments", "ment", "ings", "ing", "ers", "er", "ors", "or")
_ENDINGS = (*_SUFFIXES, "ied", "ies", "ed", "es", "ly", "s", "e", "y")
_ORDINAL = re.compile(r"(\d+)(?:st|nd|rd|th)")
_CLOCK = re.compile(r"\b(\d{1,2})[.:](\d\d)(?=\s*[ap]\.?m)")
_HALF_DAY = re.compile(r"\b([ap])\.m\.?|(?<=\d)\s*([ap])m\b")


def is_content(token: str) -> bool:
    """Whether a lower-case token carries meaning of its own."""
    return token not in _STOP


@lru_cache(maxsize=65_536)
def stem(token: str) -> str:
    """A lower-case token without its inflection: `trained`, `training`, `trainer` are one."""
    token = token.replace("\u2019", "'").removesuffix("'s").rstrip("'")
    if token in _NUMBERS:
        return _NUMBERS[token]
    if token[:1].isdigit():
        return _ORDINAL.sub(r"\1", token.replace(",", ""))
    for _ in range(2):
        for ending in _ENDINGS:
            if token.endswith(ending) and len(token) - len(ending) >= 3:
                token = token.removesuffix(ending)
                break
    if len(token) > 3 and token[-1] == token[-2] and token[-1] not in "aeiouls":
        token = token[:-1]
    return token


def content_stems(text: str) -> list[str]:
    """The stems of a text's content words, in order."""
    return [stem(token) for token in tokens(text) if is_content(token)]


def normal_form(text: str) -> list[str]:
    """Stems with numbers, amounts, dates and times of day brought to one form.

    `$1.2 million` and `1,200,000 dollars`, `7:00 pm` and `7 p.m.`, `March 3rd` and `3 March`
    become the same words.
    """
    text = _HALF_DAY.sub(lambda match: f" {match[1] or match[2]}m", text.lower())
    text = re.sub(r"\b(\d{1,2}):00\b", r"\1", _CLOCK.sub(r"\1:\2", text))
    text = re.sub(r"%|\bper cent\b", " percent", re.sub(r"\bdollars?\b|\bnoon\b", _currency, text))
    found: list[str] = []
    for word in content_stems(re.sub(r"(?<=\w)-(?=\w)", " ", text)):
        if found and _is_number(found[-1]) and word in _SCALES:
            found[-1] = f"{float(found[-1]) * _SCALES[word]:.0f}"
        else:
            found.append(word)
    return found


def has_digit(word: str) -> bool:
    """Whether a word has a digit in it."""
    return any(character.isdigit() for character in word)


def _currency(match: re.Match[str]) -> str:
    return "12 pm" if match[0] == "noon" else ""


def _is_number(word: str) -> bool:
    return bool(re.fullmatch(r"\d+(?:\.\d+)?", word))
