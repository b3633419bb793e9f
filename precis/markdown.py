"""Untrusted text as Markdown: text of a document, a policy or a judge stays text.

All punctuation is escaped: it can't become a heading, a link, a table or a tag.
"""

import re
import string
from collections.abc import Sequence

_CHARACTERS_MAX = 6000
_PLAIN = ",'\".-+:;%?/()$="
_ENTITIES = {ord(mark): f"&#{ord(mark)};" for mark in string.punctuation if mark not in _PLAIN}
"""Other punctuation becomes references. These marks stay: Prefect's page shows references in bold
text literally, and most figures have such marks."""
_SYNTAX = re.compile(r"^[-+:=]|^\d+[.)](?=\s|$)|(?<=www)\.|:(?=//)", re.IGNORECASE)
"""The places where these marks are still syntax: a list, a table's rule, an address."""
_BOLD = "\ue000"
"""Marks bold text until it is escaped; a private-use character, which is in no text."""
_WITHIN_WORD = re.compile(r"(?<=[^\W_])&#95;(?=[^\W_])")
"""An underscore that is not syntax: `learning_rate` stays readable in the file too."""


def escape(text: str) -> str:
    """Escape text so that any Markdown renderer shows it literally, on one line.

    Punctuation that may be syntax becomes character references, which Markdown never interprets.
    """
    shortened = text if len(text) <= _CHARACTERS_MAX else f"{text[:_CHARACTERS_MAX]}…"
    escaped = " ".join(shortened.split()).translate(_ENTITIES)
    escaped = _WITHIN_WORD.sub("_", escaped)
    return _SYNTAX.sub(lambda found: f"{found[0][:-1]}&#{ord(found[0][-1])};", escaped)


def mark_bold(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """Mark parts of a text, by start and end, that `table` sets in bold."""
    found = []
    place = 0
    text = text.replace(_BOLD, " ")
    for start, end in spans:
        found += [text[place:start], _BOLD, text[start:end], _BOLD]
        place = end
    return "".join([*found, text[place:]])


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of plain text, except for marked parts (`mark_bold`)."""
    lines = [_line([escape(name) for name in head]), _line(["---"] * len(head))]
    for row in rows:
        cells = []
        for cell in map(escape, row):
            # An odd number means that one was cut off, or is in an unmarked text.
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
