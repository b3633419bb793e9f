"""From files to text: plain text, Markdown, PDF, HTML and Word documents."""

import logging
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from io import BytesIO
from itertools import zip_longest
from pathlib import Path
from typing import Any

from precis.errors import DocumentsError

STANDARD_INPUT = "-"
INPUT_NAME = "standard input"
_WIDTH_MAX = 140
"""A longer line than this was not broken to fit a page: it is a paragraph."""
_FULL_LINE = 0.6
"""A shorter line than this share of the longest ends a paragraph, or is a heading."""
_LIST_ITEM = re.compile(r"[-*+•#>|]|\d+[.)]\s")
_HYPHENATED = re.compile(r"[^\W\d_]-$")


@dataclass(frozen=True)
class Text:
    """What is to be summarized, and the name of the file that it is from."""

    name: str
    text: str


def find_files(paths: Iterable[Path]) -> list[Path]:
    """The files that are meant: each path, and of a folder every file that can be read.

    Raises:
        DocumentsError: a path is not there, or a folder holds nothing that can be read.
    """
    found: list[Path] = []
    for path in paths:
        found.extend(_files_in(path) if path.is_dir() else [path])
    return list(dict.fromkeys(found))


def read_text(path: Path) -> Text:
    """The text of a file; of standard input where the path is `-`.

    Raises:
        DocumentsError: it can't be read, or holds no text.
    """
    if str(path) == STANDARD_INPUT:
        content = sys.stdin.buffer.read()
        name = INPUT_NAME
        kind = _kind_of(content)
    else:
        content = _content(path)
        name = str(path)
        kind = path.suffix.lower()
    if kind not in _READERS:
        raise DocumentsError(
            f"{name}: {kind or 'a file without a suffix'} can't be read.",
            f"Give one of {', '.join(sorted(_READERS))}, or text on standard input (-).",
        )
    text = _READERS[kind](name, content).strip()
    if not text:
        raise DocumentsError(f"{name} holds no text: there is nothing to summarize.")
    return Text(name, text)


def unwrap(text: str) -> str:
    """Join lines that were broken to fit a page, so that a sentence is one line again.

    Headings, list items, table rows and the ends of paragraphs keep their line breaks.
    """
    lines = [line.strip() for line in text.splitlines()]
    width = max((len(line) for line in lines if len(line) <= _WIDTH_MAX), default=0)
    joined = ""
    for line, following in zip_longest(lines, lines[1:], fillvalue=""):
        goes_on = bool(following) and not _LIST_ITEM.match(following)
        if goes_on and _HYPHENATED.search(line) and following[0].islower():
            joined += line[:-1]
        elif goes_on and _is_full(line, width):
            joined += f"{line} "
        else:
            joined += f"{line}\n"
    return joined


def _is_full(line: str, width: int) -> bool:
    """Whether a line goes to the edge of the page, so that its paragraph may go on below."""
    return _FULL_LINE * width <= len(line) <= _WIDTH_MAX and not line.startswith(("#", "|"))


def _files_in(folder: Path) -> list[Path]:
    readable = []
    for file in sorted(folder.rglob("*")):
        if file.is_file() and _is_shown(file, folder) and file.suffix.lower() in _READERS:
            readable.append(file)
    if not readable:
        raise DocumentsError(f"The folder {folder} holds no {', '.join(sorted(_READERS))} file.")
    return readable


def _is_shown(file: Path, folder: Path) -> bool:
    return not any(part.startswith(".") for part in file.relative_to(folder).parts)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DocumentsError(f"Can't read {path}: {error.strerror}.") from error


def _kind_of(content: bytes) -> str:
    """The suffix that content without a name would have."""
    start = content[:512].lstrip().lower()
    if start.startswith(b"%pdf-"):
        return ".pdf"
    if start.startswith(b"pk\x03\x04"):
        return ".docx"
    return ".html" if start.startswith((b"<!doctype html", b"<html")) else ".txt"


def _plain(name: str, content: bytes) -> str:
    return unwrap(_decode(name, content))


def _decode(name: str, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise DocumentsError(
            f"{name}, line {line}: not UTF-8 ({error.reason}).", "Convert the file to UTF-8."
        ) from error


def _pdf(name: str, content: bytes) -> str:
    import pypdf

    logging.getLogger("pypdf").setLevel(logging.ERROR)  # it tells of every oddity of a file
    try:
        reader = pypdf.PdfReader(BytesIO(content))
        if reader.is_encrypted and not reader.decrypt(""):
            raise DocumentsError(f"{name} is encrypted.", "Remove its password first.")
        pages = [page.extract_text() for page in reader.pages]
    except DocumentsError:
        raise
    except Exception as error:  # of a damaged file pypdf raises whatever it stumbles over
        raise DocumentsError(f"{name} can't be read as PDF: {_reason(error)}.") from error
    if not any(page.strip() for page in pages):
        raise DocumentsError(
            f"{name} has no text in it, only pictures of pages.", "Run OCR on it first."
        )
    return "\n\n".join(map(unwrap, pages))


def _word(name: str, content: bytes) -> str:
    import mammoth

    try:
        html: str = mammoth.convert_to_html(BytesIO(content)).value
    except Exception as error:  # a damaged archive, a missing part, broken XML: all its own
        raise DocumentsError(f"{name} can't be read as a Word file: {_reason(error)}.") from error
    return _markdown_of(html)


def _html(name: str, content: bytes) -> str:
    return _markdown_of(_decode(name, content))


def _markdown_of(html: str) -> str:
    """The readable part of a page as Markdown, without links and pictures."""
    from markdownify import MarkdownConverter

    class MainTextConverter(MarkdownConverter):
        """Leaves out what is around a page's text; markdownify looks for a method for each tag."""

        def drop(self, element: Any, text: str, parent_tags: Any) -> str:
            return ""

        convert_head = drop
        convert_nav = drop
        convert_footer = drop
        convert_aside = drop
        convert_form = drop
        convert_img = drop
        convert_svg = drop
        convert_noscript = drop

    converter = MainTextConverter(
        strip=["a", "b", "strong", "i", "em"],
        heading_style="ATX",
        escape_asterisks=False,
        escape_underscores=False,
    )
    return str(converter.convert(html))


def _reason(error: Exception) -> str:
    """The first line of what went wrong, or its kind."""
    return str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__


_READERS: dict[str, Callable[[str, bytes], str]] = {
    ".txt": _plain,
    ".md": _plain,
    ".markdown": _plain,
    ".pdf": _pdf,
    ".html": _html,
    ".htm": _html,
    ".docx": _word,
}
