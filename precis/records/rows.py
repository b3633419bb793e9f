"""The rows of a corpus: from a parquet, JSONL or CSV file, a folder of them, or the Hub; and the
lines of other JSONL files.

Unreadable or invalid rows are refused with their place.
"""

import csv
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from precis.config import DocumentSource
from precis.errors import ConfigError, DocumentsError
from precis.record import read_json_lines

T = TypeVar("T")

COLUMNS = (
    "document_id",
    "document_topic",
    "document_path",
    "document_extracted",
    "question_id",
    "question",
    "answer",
    "long_answer",
)
_MAY_BE_EMPTY = {"document_path", "long_answer"}
_READERS = {".parquet": "parquet", ".jsonl": "json", ".csv": "csv"}
_BATCH = 256
"""Rows of a parquet file converted to Python at a time; the others stay in Arrow's columns."""
_CELL_MAX = 2**26
"""A quotation that nothing closes takes four bytes for each character up to this."""
_NO_UTF8 = re.compile("[\udc80-\udcff]")
"""Invalid bytes, as decoded by Python's `surrogateescape`."""


@dataclass(frozen=True)
class CorpusRow:
    """A row of a corpus and its place, for error messages."""

    origin: str
    number: int
    values: Mapping[str, Any]

    def __getitem__(self, column: str) -> str:
        value = self.values.get(column)
        if isinstance(value, list | dict):
            kind = "a list" if isinstance(value, list) else "an object"
            raise self.problem(column, f"is {kind}, where text belongs")
        text = "" if value is None else str(value)
        if not text.strip() and column not in _MAY_BE_EMPTY:
            raise self.problem(column, "is empty")
        if not text.isascii() and _NO_UTF8.search(text):
            raise self.problem(column, "not UTF-8, to which the file has to be converted")
        return text

    @property
    def place(self) -> str:
        return f"{self.origin}, row {self.number}"

    def problem(self, column: str, what: str) -> DocumentsError:
        return DocumentsError(f"{self.place}, column {column!r}: {what}.")


def read_rows(config: DocumentSource) -> Iterator[CorpusRow]:
    """Yield the rows of a source, in order. Raises DocumentsError if it can't be read, has no rows,
    or lacks a column."""
    if config.source == "bundled":
        return _file_rows(Path(str(files("precis.data") / "fictional.parquet")))
    if not config.source.strip():
        raise DocumentsError(
            "No documents are named.", "Give a file, a folder, a data set on the Hub or `bundled`."
        )
    path = Path(os.path.expanduser(config.source))
    if os.path.exists(path):  # it accepts any text, even longer than a path
        found = [path]
        if path.is_dir():
            found = sorted(file for file in path.iterdir() if file.suffix.lower() in _READERS)
        if not found:
            raise DocumentsError(
                f"The folder {path} holds no {', '.join(sorted(_READERS))} file.",
                "Of a folder of texts `precis questions make` makes a corpus.",
            )
        return chain.from_iterable(map(_file_rows, found))
    if re.fullmatch(r"\w[\w.-]*/[\w.-]+", config.source) and not path.suffix:
        import datasets

        try:
            rows = datasets.load_dataset(config.source, split=config.hub_split)
        except Exception as error:  # the Hub's client raises some twenty unrelated types
            why = _innermost(error)
            # After a failed connection it retries with a client that it has closed.
            if isinstance(error, RuntimeError) and "client has been closed" in why:
                why = "it can't be reached"
            raise DocumentsError(
                f"The data set {config.source} (split {config.hub_split}) can't be loaded from "
                f"the Hub: {why}.",
                "Check its name and split and the network, or give a local file.",
            ) from error
        origin = f"{config.source} ({config.hub_split})"
        _check_columns(origin, rows.column_names)
        return (CorpusRow(origin, number, values) for number, values in enumerate(rows, start=1))
    raise DocumentsError(
        f"{config.source} is neither a file or folder here nor a data set's name on the Hub "
        "(owner/name)."
    )


def holds_rows(path: Path) -> bool:
    """Return whether a file, or one in a folder, has a readable kind of rows."""
    files = path.iterdir() if path.is_dir() else [path]
    return any(file.suffix.lower() in _READERS for file in files)


def _file_rows(path: Path) -> Iterator[CorpusRow]:
    for number, values in enumerate(read_objects(path), start=1):
        if number == 1:
            _check_columns(str(path), list(values))
        yield CorpusRow(str(path), number, values)


def read_objects(path: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a parquet, JSONL or CSV file while reading it. Raises DocumentsError if
    it can't be read, or has none."""
    kind = _READERS.get(path.suffix.lower())
    if kind is None:
        raise DocumentsError(f"{path}: not one of {', '.join(sorted(_READERS))}.")
    count = 0
    try:
        for values in _read(path, kind):
            count += 1
            yield values
    except Exception as error:  # Arrow has many error types
        raise DocumentsError(
            f"{path} can't be read as {kind} ({_innermost(error)}): see whether the file is whole, "
            "and is what its name says."
        ) from error
    if not count:
        raise DocumentsError(f"{path} holds no rows: give one for each question.")


def _read(path: Path, kind: str) -> Iterator[Mapping[str, Any]]:
    if kind == "parquet":
        from pyarrow.parquet import ParquetFile

        with ParquetFile(path) as file:  # `read_table` would import pandas, for 0.4 s
            for batch in file.iter_batches(_BATCH):
                yield from batch.to_pylist()
        return
    # Invalid UTF-8 is reported with its row, once that is known.
    with path.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as lines:
        if kind == "csv":
            csv.field_size_limit(max(_CELL_MAX, csv.field_size_limit()))  # the whole process's
            for row in csv.DictReader(lines, strict=True):
                if None in row:
                    raise ValueError("a row has more cells than the first")
                yield row
            return
        yield from read_json_lines(lines, lambda _, row: row)


def _check_columns(origin: str, names: Sequence[str]) -> None:
    for column in COLUMNS:
        if column not in names:
            raise DocumentsError(
                f"{origin}, row 1, column {column!r}: missing.",
                f"The file has {', '.join(names)}; RepLiQA's columns are {', '.join(COLUMNS)}. "
                "Move it elsewhere if the texts of its folder are the documents.",
            )


def _innermost(error: BaseException) -> str:
    """Return the first sentence of an error's root cause."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().splitlines()
    return lines[0].partition(". ")[0].rstrip(".!") if lines else type(error).__name__


def read_json_file(
    file: str, holds: str, read: Callable[[int, dict[str, Any]], T], remedy: str
) -> list[T]:
    """Return what `read` makes of the objects of a JSONL file; see `read_json_lines`. Raises
    ConfigError if the file can't be read, is empty, or has an invalid line, whose number is named;
    `remedy` says what to write."""
    try:
        text = Path(os.path.expanduser(file)).read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not text in UTF-8"
        raise ConfigError(f"The {holds} in {file} can't be read: {reason}.", remedy) from error
    try:
        found = list(read_json_lines(text.split("\n"), read))
    except ValueError as error:
        raise ConfigError(f"{file}, {error}", remedy) from error
    if not found:
        raise ConfigError(f"{file} holds no {holds}.", remedy)
    return found
