"""Fictional people, places, firms, dates and amounts."""

from collections.abc import Callable
from pathlib import Path
from random import Random


def _lists(path: Path) -> dict[str, list[str]]:
    """Return the lists of `names.txt`: a title after `==`, then names between commas."""
    found: dict[str, list[str]] = {}
    for block in path.read_text("utf-8").split("== ")[1:]:
        title, _, names = block.partition("\n")
        found[title] = [name.strip() for name in names.replace("\n", " ").split(",")]
    return found


_NAMES = _lists(Path(__file__).with_name("names.txt"))
_STREET_TAILS = ("Street", "Lane", "Road", "Row")
_FIRM_TAILS = ("& Daughters", "& Sons", "Associates", "Partners", "Works", "Group", "Cooperative")


def _choose_from(title: str) -> Callable[[Random], str]:
    return lambda rng: rng.choice(_NAMES[title])


def _woman(rng: Random) -> str:
    return f"{rng.choice(_NAMES['women'])} {rng.choice(_NAMES['surnames'])}"


def _man(rng: Random) -> str:
    return f"{rng.choice(_NAMES['men'])} {rng.choice(_NAMES['surnames'])}"


def _day(rng: Random) -> str:
    return f"{rng.choice(_NAMES['months'])} {rng.randint(1, 28)}"


def _time(rng: Random) -> str:
    hour = rng.randint(1, 11)
    half = rng.choice(("a.m.", "p.m."))
    return f"{hour}:{rng.choice(('05', '10', '15', '20', '30', '40', '45', '50'))} {half}"


SLOTS: dict[str, Callable[[Random], str]] = {
    "person": lambda rng: rng.choice((_woman, _man))(rng),
    "woman": _woman,
    "man": _man,
    "surname": _choose_from("surnames"),
    "firm": lambda rng: f"{rng.choice(_NAMES['surnames'])} {rng.choice(_FIRM_TAILS)}",
    "town": _choose_from("towns"),
    "quarter": _choose_from("quarters"),
    "street": lambda rng: f"{rng.choice(_NAMES['streets'])} {rng.choice(_STREET_TAILS)}",
    "river": lambda rng: f"River {rng.choice(_NAMES['rivers'])}",
    "date": lambda rng: f"{_day(rng)}, {rng.randint(2019, 2024)}",
    "day": _day,
    "month": _choose_from("months"),
    "weekday": _choose_from("weekdays"),
    "time": _time,
    "year": lambda rng: str(rng.randint(2009, 2023)),
    "oldyear": lambda rng: str(rng.randint(1871, 1989)),
    "few": _choose_from("small numbers"),
    "digit": lambda rng: str(rng.randint(2, 9)),
    "count": lambda rng: str(rng.randint(13, 97)),
    "many": lambda rng: f"{rng.randint(11, 489) * 10:,}",
    "percent": lambda rng: f"{rng.randint(6, 78)} percent",
    "coins": lambda rng: f"${rng.randint(3, 14)}",
    "price": lambda rng: f"${rng.randint(15, 95)}",
    "money": lambda rng: f"${rng.randint(24, 1950) * 100:,}",
    "millions": lambda rng: f"${rng.randint(11, 97) / 10} million",
    "phone": lambda rng: f"extension {rng.randint(101, 988)}",
}
"""The slots that a `{slot}` of a story may ask for: one drawing function each.

`{person2}` is another person than `{person}`: a digit after a slot's name makes another draw.
"""
