"""Story files: how they are read, and how their sentences are drawn.

A story file holds the prose of one topic in sections: `== names`, `== titles`, `== openings`,
`== facts`, `== background` (details that nobody asks for), `== filler`, `== closings`,
`== headings`, `== absent` (questions that no document answers) and `== manner` (which asides it
may have; `local` where it is left out). A line is one passage. In it, `[this|that]` is a choice
and `{slot}` a value: one of the story's own names, which a document draws once, or one of
`SLOTS`.

A fact is a block of lines: `cause := one | another` draws its own value, `* ` starts a way
to tell it, `? ` a way to ask for it, and `= ` the answer.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
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


_CHOICE = re.compile(r"\[([^\[\]]*\|[^\[\]]*)\]")
_SLOT = re.compile(r"\{(\w+?)\}")
_TRIES = 40
_OPENING_SLOT = re.compile(r"(^|[.!?]”? )\{(\w+?)\}")


@dataclass(frozen=True)
class FactTemplate:
    """Something that a document may state and a question may ask for.

    Attributes:
        values: the fact's own slots, each with its choices.
        tellings: sentences that state it.
    """

    values: dict[str, tuple[str, ...]]
    tellings: tuple[str, ...]
    questions: tuple[str, ...]
    answer: str


@dataclass(frozen=True)
class Story:
    """The prose of one topic.

    Attributes:
        topic: as RepLiQA names it.
        names: what a document of the story draws once, each with its choices.
        facts: what a document may state.
        sections: all other prose, by the section's name; one passage a line.
    """

    topic: str
    names: dict[str, tuple[str, ...]]
    facts: tuple[FactTemplate, ...]
    sections: dict[str, tuple[str, ...]]


def read_stories(folder: Path) -> list[Story]:
    """Read all stories of a folder, by file name, with the shared `asides.txt` beside it."""
    asides = parse_story(folder.with_name("asides.txt").read_text("utf-8")).sections
    stories = []
    for path in sorted(folder.glob("*.txt")):
        story = parse_story(path.read_text("utf-8"))
        (manner,) = story.sections.get("manner", ("local",))
        stories.append(replace(story, sections={**story.sections, "asides": asides[manner]}))
    return stories


def parse_story(text: str) -> Story:
    """Read a story file: the topic in its first line, then its sections."""
    topic, _, body = text.strip().partition("\n")
    blocks: dict[str, str] = {}
    for block in body.split("\n== ")[1:]:
        name, _, lines = block.partition("\n")
        blocks[name.strip()] = lines.strip()
    names = dict(_values(line, "=") for line in blocks.pop("names", "").splitlines() if line)
    facts = []
    for block in filter(None, re.split(r"\n\s*\n", blocks.pop("facts", ""))):
        values = {}
        marked: dict[str, list[str]] = {"* ": [], "? ": [], "= ": []}
        for line in block.splitlines():
            if ":=" in line:
                name, choices = _values(line, ":=")
                values[name] = choices
            if line[:2] in marked:
                marked[line[:2]].append(line[2:].strip())
        sentences, questions, answers = map(tuple, marked.values())
        facts.append(FactTemplate(values, sentences, questions, answers[0]))
    sections = {}
    for name, lines in blocks.items():
        sections[name] = tuple(line.removeprefix("? ") for line in lines.splitlines() if line)
    return Story(topic, names, tuple(facts), sections)


def _values(line: str, sign: str) -> tuple[str, tuple[str, ...]]:
    name, _, values = line.partition(sign)
    return name.strip(), tuple(value.strip() for value in values.split(" | "))


class Draw:
    """The values that one document has drawn.

    No two slots of it get the same value, unless a supply (weekdays, small numbers) runs out.
    """

    def __init__(self, rng: Random, names: dict[str, tuple[str, ...]]) -> None:
        self._rng = rng
        self._taken: set[str] = set()
        self._bound: dict[str, str] = {"town": self._fresh("town")}
        for name, values in names.items():
            self._bound[name] = self._plain(rng.choice(values), {})

    def tell(self, template: str, own: dict[str, str]) -> str:
        """Return a passage from a template; `own` collects the values of this passage alone."""
        text = template
        while _CHOICE.search(text):
            text = _CHOICE.sub(lambda match: self._rng.choice(match[1].split("|")), text, count=1)

        def capitalise(match: re.Match[str]) -> str:
            value = self._value(match[2], own)
            return match[1] + value[:1].upper() + value[1:]

        return self._plain(_OPENING_SLOT.sub(capitalise, text), own)

    def own_values(self, fact: FactTemplate) -> dict[str, str]:
        own: dict[str, str] = {}
        for name, values in fact.values.items():
            own[name] = self._plain(self._rng.choice(values), own)
        return own

    def _plain(self, template: str, own: dict[str, str]) -> str:
        return _SLOT.sub(lambda match: self._value(match[1], own), template)

    def _value(self, name: str, own: dict[str, str]) -> str:
        if name in self._bound:
            return self._bound[name]
        if name not in own:
            own[name] = self._fresh(name.rstrip("0123456789"))
        return own[name]

    def _fresh(self, slot: str) -> str:
        for _ in range(_TRIES):
            value = SLOTS[slot](self._rng)
            if value not in self._taken:
                break
        self._taken.add(value)
        return value
