"""The text of files: plain text, Markdown, PDF, HTML and Word documents.

Files are not trusted: `precis.inference.reader` reads them in a separate process.
"""

import logging
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import zip_longest
from pathlib import Path
from typing import Any

from precis.errors import DocumentsError, without_controls
from precis.inference.prose import prose

STANDARD_INPUT = "-"
INPUT_NAME = "standard input"
_WIDTH_MAX = 140
"""A line longer than this was not broken to fit a page: it is a paragraph."""
_FULL_LINE = 0.6
"""A line shorter than this share of the longest ends a paragraph, or is a heading."""
_PDF = b"%pdf-"
_ZIP = b"pk\x03\x04"
"""The first bytes of PDFs and of Word files, in small letters."""
_SURROUNDINGS = ["head", "nav", "footer", "aside", "form", "img", "svg", "noscript"]
_LIST_ITEM = re.compile(r"[-*+•#>|`~]|\d+[.)]\s")
_HYPHENATED = re.compile(r"[^\W\d_]-$")
_LIGATURES = str.maketrans({"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl"})
"""The glyphs for two or three letters that printed pages have: no judge's word would match."""
_EDGE_MAX = 2
"""The most lines of running headers or footers on a page."""
_RUNNING_PAGES_MIN = 3
_RUNNING_SHARE = 0.25
_CHARACTERS_MAX = 5_000_000
"""The most characters of a text: some 800,000 words, which take ten seconds to summarize."""


@dataclass(frozen=True)
class Text:
    """A document to summarize, as Markdown if the file has headings, lists and tables, and its
    sentences alone (`precis.inference.prose`), which may be left empty."""

    name: str
    text: str
    prose: str = ""


def find_files(paths: Iterable[Path]) -> list[Path]:
    """Return the files of some paths: a folder gives every readable file in it. Raises
    DocumentsError if a folder has none, or none of the files exists."""
    found: list[Path] = []
    for path in paths:
        is_folder = os.path.isdir(path)  # it accepts any text, even longer than a path
        readable = [] if is_folder else [path]
        for file in sorted(path.rglob("*")) if is_folder else ():
            is_hidden = any(part.startswith(".") for part in file.relative_to(path).parts)
            if file.suffix.lower() in _READERS and not is_hidden and file.is_file():
                readable.append(file)
        if not readable:
            raise DocumentsError(f"The folder {path} holds no {', '.join(sorted(_READERS))} file.")
        found += readable
    if not any(str(file) == STANDARD_INPUT or os.path.exists(file) for file in found):
        # Said before a model is started, which takes a minute.
        raise DocumentsError(f"There is no file {found[0]}.", "See whether its name is right.")
    return list(dict.fromkeys(found))


def kind_of(path: Path, content: bytes) -> str:
    """Return the suffix that determines how to read a file; for standard input, the suitable
    one."""
    if str(path) != STANDARD_INPUT:
        return path.suffix.lower()
    start = content[:512].lstrip().lower()
    if start.startswith(_PDF):
        return ".pdf"
    if start.startswith(_ZIP):
        return ".docx"
    return ".html" if start.startswith((b"<!doctype html", b"<html")) else ".txt"


def read_content(name: str, kind: str, content: bytes) -> Text:
    """Return the text of a file's content, by its suffix. Raises DocumentsError if it can't be
    read, or has no text."""
    if kind not in _READERS:
        raise DocumentsError(
            f"{name}: {kind or 'a file without a suffix'} can't be read.",
            f"Give one of {', '.join(sorted(_READERS))}.",
        )
    text, sentences = _READERS[kind](name, content)
    text = text.strip()
    if not text:
        raise DocumentsError(f"{name} holds no text: there is nothing to summarize.")
    if len(text) > _CHARACTERS_MAX:
        raise DocumentsError(
            f"{name} holds {len(text):,} characters, where {_CHARACTERS_MAX:,} can be read.",
            "Split it.",
        )
    return Text(name, text, sentences)


def unwrap(text: str) -> str:
    """Join lines that were broken to fit a page, so that a sentence is one line again.

    Headings, list items, table rows and the ends of paragraphs keep their line breaks.
    """
    lines = []
    width = 0
    for line in map(str.strip, text.splitlines()):
        lines.append(line)
        if len(line) <= _WIDTH_MAX:
            width = max(width, len(line))
    joined = ""
    for line, following in zip_longest(lines, lines[1:], fillvalue=""):
        goes_on = bool(following) and not _LIST_ITEM.match(following)
        if goes_on and _HYPHENATED.search(line) and following[0].islower():
            joined += line[:-1]
        else:
            # Its paragraph may continue below if it reaches the edge of the page.
            is_full = _FULL_LINE * width <= len(line) <= _WIDTH_MAX
            is_text = not line.startswith(("#", "|"))
            joined += f"{line} " if goes_on and is_full and is_text else f"{line}\n"
    return joined


def _plain(name: str, content: bytes) -> tuple[str, str]:
    text = unwrap(_decode(name, content))
    # Each line is now a paragraph, a heading or a row, and no line continues in the next.
    return text, prose(text.replace("\n", "\n\n"))


def _markdown(name: str, content: bytes) -> tuple[str, str]:
    text = _decode(name, content)
    return unwrap(text), prose(text)


def _decode(name: str, content: bytes) -> str:
    start = content[:512].lstrip().lower()
    if start.startswith(_PDF):
        raise DocumentsError(f"{name} is a PDF.", "Give the file a name that ends in .pdf.")
    if start.startswith(_ZIP):
        raise DocumentsError(
            f"{name} is an archive, as Word files are, and not text.",
            "Give a Word file a name that ends in .docx.",
        )
    if b"\0" in start:
        raise DocumentsError(
            f"{name} is binary data, or text that is not UTF-8.",
            "Convert a text to UTF-8, and give a PDF, HTML or Word file its own suffix.",
        )
    try:
        return without_controls(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DocumentsError(
            f"{name}, line {line}: not UTF-8 ({error.reason}).", "Convert the file to UTF-8."
        ) from error


def _pdf(name: str, content: bytes) -> tuple[str, str]:
    import pypdf

    logging.getLogger("pypdf").setLevel(logging.ERROR)  # it logs every oddity of a file
    try:
        reader = pypdf.PdfReader(BytesIO(content))
        if reader.is_encrypted and not reader.decrypt(""):
            raise DocumentsError(f"{name} is encrypted.", "Remove its password first.")
        pages = []
        for one in reader.pages:
            pages.append(without_controls(one.extract_text()).translate(_LIGATURES))
    except (DocumentsError, MemoryError, RecursionError):
        raise
    except Exception as error:  # for a damaged file pypdf may raise any error
        raise DocumentsError(f"{name} can't be read as PDF: {reason(error)}.") from error
    if not any(map(str.strip, pages)):
        raise DocumentsError(
            f"{name} has no text in it, only pictures of pages.", "Run OCR on it first."
        )
    # One text of all pages, since a sentence may continue on the next.
    joined = ""
    for page in without_running_lines(pages):
        goes_on = page.lstrip()[:1].islower()
        joined = f"{joined.rstrip()}\n{page}" if goes_on else f"{joined}\n\n{page}"
    text = unwrap(joined)
    return text, prose(text.replace("\n", "\n\n"), is_print=True)


def without_running_lines(pages: Sequence[str]) -> list[str]:
    """Return pages without the headers, footers and page numbers that many of them share."""
    seen: Counter[str] = Counter()
    for page in pages:
        lines = [line for line in page.splitlines() if line.strip()]
        edge = _edge(lines)
        seen.update(set(map(_shape, [*lines[:edge], *lines[len(lines) - edge :]])))
    enough = max(_RUNNING_PAGES_MIN, _RUNNING_SHARE * len(pages))
    bare = []
    for page in pages:
        lines = page.strip().splitlines()
        edge = _edge(lines)
        for at in (0, -1):
            for _ in range(edge):
                if lines and seen[_shape(lines[at])] >= enough:
                    lines.pop(at)
        bare.append("\n".join(lines).strip())
    return bare if any(bare) else list(pages)


def _edge(lines: Sequence[str]) -> int:
    """Return how many lines at either end of a page may be a header or footer."""
    return max(1, min(_EDGE_MAX, len(lines) // 4))


def _shape(line: str) -> str:
    """Return a line with its numbers masked, since page numbers differ."""
    return re.sub(r"\d+", "0", " ".join(line.split()).casefold())


def _word(name: str, content: bytes) -> tuple[str, str]:
    import mammoth

    try:
        html: str = mammoth.convert_to_html(BytesIO(content)).value
    except (MemoryError, RecursionError):
        raise
    except Exception as error:  # a damaged archive, a missing part, broken XML
        raise DocumentsError(f"{name} can't be read as a Word file: {reason(error)}.") from error
    return _read_html(html)


def _html(name: str, content: bytes) -> tuple[str, str]:
    return _read_html(_decode(name, content))


def _read_html(html: str) -> tuple[str, str]:
    """Return the readable part of a page as Markdown without links and pictures, and its prose."""
    from markdownify import MarkdownConverter

    class MainTextConverter(MarkdownConverter):
        """Leaves out the surroundings of a page's text."""

        def convert_soup(self, soup: Any) -> str:
            for element in soup(_SURROUNDINGS):
                element.extract()
            return str(super().convert_soup(soup))

    converter = MainTextConverter(
        strip=["a", "b", "strong", "i", "em"],
        heading_style="ATX",
        escape_asterisks=False,
        escape_underscores=False,
    )
    markdown = without_controls(str(converter.convert(html)))
    return markdown, prose(markdown)


def reason(error: Exception) -> str:
    """Return the first line of an error, or its type."""
    return str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__


_READERS: dict[str, Callable[[str, bytes], tuple[str, str]]] = {
    ".txt": _plain,
    ".md": _markdown,
    ".markdown": _markdown,
    ".pdf": _pdf,
    ".html": _html,
    ".htm": _html,
    ".docx": _word,
}
