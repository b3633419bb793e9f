"""The sentences of a text: without headings, tables, code, and Markdown's and HTML's marks.

Extractive methods pick from these, so that their summaries read as prose.
"""

import re
from collections.abc import Iterator, Sequence
from html import unescape

from markdown_it import MarkdownIt
from markdown_it.token import Token

_MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])
_LINES = MarkdownIt("zero").enable("list")
"""Knows only paragraphs and lists: in print `*` and `_` are not markup."""

_ENDS = ".!?…。！？؟۔।"
_CLOSING = "\"'”’»)]」』）*_"
_HEADING_MAX = 100
"""In characters: a longer line, mostly of letters, is a sentence without its full stop."""
_LETTERS_MIN = 0.6
_BULLET = re.compile(r"[•▪◦‣·–—]\s+")
_GAP = re.compile(r"\S(?: {3,}| ?\t| \|)(?=\s*\S)")
"""A gap between two cells of a table that is not one in Markdown."""
_TAG = re.compile(r"<[^<>]*>")
_NO_TEXT = ("<script", "<style", "<pre", "<!--", "<?", "<!")
_FOOTNOTE = re.compile(r"\[\^[^\]\s]{1,40}\]:?")


def prose(text: str, *, is_print: bool = False) -> str:
    """Return the sentences of a text, a paragraph or list item a line; if there are none, the text
    without its markup. On a printed page no character is markup."""
    parser = _LINES if is_print else _MARKDOWN
    lines = []
    spoken = []
    sentences = []
    for kind, line in _blocks(parser.parse(text)):
        lines.append(line)
        if kind == "paragraph":
            spoken.append(line)
            letters = sum(map(str.isalpha, line))
            is_long = len(line) > _HEADING_MAX and letters >= _LETTERS_MIN * len(line)
            if is_long or line.rstrip(_CLOSING)[-1:] in _ENDS:
                sentences.append(line)
    if sentences and 2 * len("".join(sentences)) >= len("".join(spoken)):
        return "\n".join(sentences)
    return "\n".join(spoken or lines) or text.strip()


def _blocks(tokens: Sequence[Token]) -> Iterator[tuple[str, str]]:
    """Yield the pieces of a parsed document with their kinds, except those without words."""
    kind = "paragraph"
    for token in tokens:
        if token.type in ("heading_open", "table_open"):
            kind = "other"
        elif token.type in ("heading_close", "table_close"):
            kind = "paragraph"
        elif token.type in ("fence", "code_block"):
            yield from _named("other", token.content)
        elif token.type == "html_block":
            is_text = not token.content.lstrip().lower().startswith(_NO_TEXT)
            yield from _named(
                "paragraph" if is_text else "other", unescape(_TAG.sub(" ", token.content))
            )
        elif token.type == "inline":
            is_row = token.content.startswith("|") or len(_GAP.findall(token.content)) > 1
            shown = ""
            for child in token.children or ():
                if child.type == "softbreak":
                    shown += " "
                elif child.type == "hardbreak" or child.content.lower().startswith("<br"):
                    shown += "\n"
                elif child.type in ("text", "code_inline"):
                    shown += child.content
            yield from _named("other" if is_row else kind, _FOOTNOTE.sub("", shown))


def _named(kind: str, text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        shown = _BULLET.sub("", " ".join(line.split()), count=1)
        if any(map(str.isalnum, shown)):
            yield kind, shown
