"""Text of others as Markdown: whatever a document, a policy or a judge wrote stays text.

It is escaped to the last punctuation mark: it can't become a heading, a link, a table or a tag.
"""

import re
import string
from collections.abc import Sequence

_CHARACTERS_MAX = 6000
_PLAIN = ",'.-+:;%?/()$="
_ENTITIES = {ord(mark): f"&#{ord(mark)};" for mark in string.punctuation if mark not in _PLAIN}
"""Other punctuation becomes references. These marks stay: Prefect's page shows references in bold
text as they are written, and they are in most figures."""
_SYNTAX = re.compile(r"^[-+:=]|^\d+[.)]|(?<=www)\.|:(?=//)", re.IGNORECASE)
"""The places where they are syntax all the same: a list, a table's rule, an address."""
_BOLD = "\ue000"
"""Begins and ends bold text until it is escaped; of the private use, so that it is in no text."""
_WITHIN_WORD = re.compile(r"(?<=[^\W_])&#95;(?=[^\W_])")
"""An underscore that is no syntax: `learning_rate` reads as such in the file too."""


def escape(text: str) -> str:
    """Text that any markdown renderer shows as it is, on one line, whatever it holds.

    Punctuation that may be syntax becomes character references, which markdown never takes for it.
    """
    shortened = text if len(text) <= _CHARACTERS_MAX else f"{text[:_CHARACTERS_MAX]}…"
    escaped = " ".join(shortened.split()).translate(_ENTITIES)
    escaped = _WITHIN_WORD.sub("_", escaped)
    return _SYNTAX.sub(lambda found: f"{found[0][:-1]}&#{ord(found[0][-1])};", escaped)


def mark_bold(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """Mark parts of a text that a `table` is to set in bold, by their begins and ends."""
    found = []
    place = 0
    text = text.replace(_BOLD, " ")
    for start, end in spans:
        found += [text[place:start], _BOLD, text[start:end], _BOLD]
        place = end
    return "".join([*found, text[place:]])


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of plain text, but for what is marked (`mark_bold`)."""
    lines = [_line(head), _line(["---"] * len(head))]
    for row in rows:
        cells = []
        for cell in map(escape, row):
            # Of an odd number one was cut off, or stands in a text that nobody marked.
            whole = cell.count(_BOLD) % 2 == 0
            cells.append(cell.replace(_BOLD, "**" if whole else ""))
        lines.append(_line(cells))
    return "\n".join(lines)


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def quote(text: str) -> str:
    """Return a text as a quotation, line by line."""
    lines = [f"> {escape(line)}" for line in text.splitlines() if line.strip()]
    return "\n>\n".join(lines or ["> (empty)"])
