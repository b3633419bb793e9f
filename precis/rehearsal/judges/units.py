"""The units of numbers: three days are not three hours, and 2,500 pounds not 2,500 euros."""

import re
from collections.abc import Sequence
from itertools import pairwise

_SPELLINGS = """
second seconds sec secs
minute minutes min mins
hour hours hr hrs
day days
week weeks
month months
year years yr yrs
decade decades
century centuries
millimetre millimetres millimeter millimeters mm
centimetre centimetres centimeter centimeters cm
metre metres meter meters m
kilometre kilometres kilometer kilometers km
inch inches
foot feet ft
yard yards
mile miles
gram grams gramme grammes g
kilogram kilograms kilogramme kilogrammes kilo kilos kg
tonne tonnes ton tons
ounce ounces oz
litre litres liter liters
gallon gallons
hectare hectares ha
acre acres
percent
dollar dollars usd dollarsign
euro euros eur eurosign
pound pounds gbp poundsign lb lbs
yen jpy yensign
"""
_UNITS: dict[str, str] = {}
for _line in _SPELLINGS.strip().splitlines():
    _unit = _line.split()[0]
    _UNITS.update(dict.fromkeys(_line.split(), _unit))
_SIGNS = {"$": "dollarsign", "€": "eurosign", "£": "poundsign", "¥": "yensign"}
SIGN_WORDS = frozenset(_SIGNS.values())
"""The words for currency signs, which count only as a number's unit."""
_SCALES = {"k": "thousand", "m": "million", "mn": "million", "bn": "billion", "b": "billion"}
_SIGN = "([$€£¥])"
_NUMBER = r"(\d+(?:\.\d+)?)"
_SHORT_SCALE = re.compile(rf"{_SIGN}\s?{_NUMBER}\s?({'|'.join(_SCALES)})\b")
_SIGN_BEFORE = re.compile(
    rf"(?:\b(?:us|a|c|nz))?{_SIGN}\s?{_NUMBER}(\s(?:thousand|million|billion)\b)?"
)
_SIGN_AFTER = re.compile(rf"(?<=\d)\s?{_SIGN}")
_CODE_BEFORE = re.compile(rf"\b(usd|eur|gbp|jpy)\s?{_NUMBER}(\s(?:thousand|million|billion)\b)?")
_JOINED = re.compile(r"(?<=\d)(?=(?:mm|cm|km|kg|ha|ft|oz|lbs?|mins?|hrs?)\b)")


def unify_units(text: str) -> str:
    """Return a text in small letters, with the unit of each number as a word after it. `$1.5M`,
    `€250k`, `EUR 450` and `3km` become `1.5 million dollarsign`, `250 thousand eurosign`, `450 eur`
    and `3 km`."""
    text = _SHORT_SCALE.sub(lambda match: f"{match[1]}{match[2]} {_SCALES[match[3]]}", text)
    text = _SIGN_BEFORE.sub(lambda match: f" {match[2]}{match[3] or ''} {_SIGNS[match[1]]} ", text)
    text = _SIGN_AFTER.sub(lambda match: f" {_SIGNS[match[1]]} ", text)
    text = _CODE_BEFORE.sub(lambda match: f"{match[2]}{match[3] or ''} {match[1]}", text)
    return _JOINED.sub(" ", text)


def counted(words: Sequence[str]) -> list[tuple[str, str]]:
    """Return each number, in digits already, with the unit after it, or an empty one."""
    bare = [word for word in words if word != "us"]
    found = []
    for number, unit in pairwise([*bare, ""]):
        if number[0].isdigit():
            found.append((number, _UNITS.get(unit, "")))
    return found
