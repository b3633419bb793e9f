"""Summaries that somebody has: rows of a parquet or JSONL file."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from precis.errors import DocumentsError

_READERS = (".parquet", ".jsonl")


@dataclass(frozen=True)
class GivenSummary:
    """A row, with its document's id or text, and where it stands."""

    document_id: str
    text: str
    summary: str
    where: str


def read_summaries(path: Path) -> list[GivenSummary]:
    """All rows of a file.

    Raises:
        DocumentsError: it can't be read, or a row lacks its summary or its document.
    """
    if path.suffix not in _READERS:
        raise DocumentsError(f"{path}: summaries are read from {' or '.join(_READERS)} files.")
    try:
        rows = list(_rows(path))
    except (OSError, ValueError) as error:  # Arrow's errors are ValueErrors and OSErrors
        raise DocumentsError(
            f"{path} can't be read: {str(error).splitlines()[0]}.",
            "See whether the file is there and whole, and is what its name says.",
        ) from error
    if not rows:
        raise DocumentsError(f"{path} holds no rows: give one for each summary.")
    return [_given(row, f"{path}, row {number}") for number, row in enumerate(rows, start=1)]


def _rows(path: Path) -> Iterator[Any]:
    if path.suffix == ".parquet":
        from pyarrow import parquet

        yield from parquet.read_table(path).to_pylist()
        return
    with path.open(encoding="utf-8-sig") as lines:
        for line in lines:
            if line.strip():
                yield json.loads(line)


def _given(row: Any, where: str) -> GivenSummary:
    if not isinstance(row, dict):
        raise DocumentsError(f"{where}: no object with a summary.")
    texts = {}
    for column in ("document_id", "text", "summary"):
        value = row.get(column)
        texts[column] = "" if value is None else str(value)
    if not texts["summary"].strip():
        raise DocumentsError(f"{where}, column 'summary': missing or empty.")
    if not texts["document_id"].strip() and not texts["text"].strip():
        raise DocumentsError(f"{where}: give the document's 'document_id' or its 'text'.")
    return GivenSummary(**texts, where=where)
