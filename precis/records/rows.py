"""The rows of a corpus: from a parquet, JSONL or CSV file, a folder of them, or the Hub.

What can't be read, or is not what RepLiQA's columns promise, is refused with its place.
"""

import csv
import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Any

from precis.config import DocumentSource
from precis.errors import DocumentsError

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
_READERS = {".parquet": "parquet", ".jsonl": "json", ".json": "json", ".csv": "csv"}
_BATCH = 256
"""Rows that are Python's at a time; of a file's other rows only Arrow's columns are held."""


@dataclass(frozen=True)
class CorpusRow:
    """A row of a corpus and where it stands, for error messages."""

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
        return text

    def problem(self, column: str, what: str) -> DocumentsError:
        return DocumentsError(f"{self.origin}, row {self.number}, column {column!r}: {what}.")


def read_rows(config: DocumentSource) -> Iterator[CorpusRow]:
    """The rows of a source, in their order; a DocumentsError says that it can't be read, has no
    rows, or lacks a column."""
    if config.source == "bundled":
        return _file_rows(Path(str(files("precis.data") / "fictional.parquet")))
    if not config.source.strip():
        raise DocumentsError(
            "No documents are named.", "Give a file, a folder, a data set on the Hub or `bundled`."
        )
    path = Path(config.source).expanduser()
    if path.exists():
        return chain.from_iterable(map(_file_rows, _data_files(path)))
    if config.source.count("/") == 1 and not path.suffix:
        import datasets

        try:
            rows = datasets.load_dataset(config.source, split=config.hub_split)
        except Exception as error:  # the Hub's client raises some twenty unrelated types
            why = _innermost(error)
            # Its next try after a connection that failed is by a client that it has closed.
            if isinstance(error, RuntimeError) and "client has been closed" in why:
                why = "it can't be reached"
            raise DocumentsError(
                f"The data set {config.source} (split {config.hub_split}) can't be loaded from "
                f"the Hub: {why}.",
                "Check its name and split and the network, or give a local file.",
            ) from error
        return _check_columns(f"{config.source} ({config.hub_split})", rows.column_names, rows)
    raise DocumentsError(
        f"{config.source} is neither a file or folder here nor a data set's name on the Hub "
        "(owner/name)."
    )


def holds_rows(path: Path) -> bool:
    """Return whether a file, or one in a folder, is of a kind that rows are read from."""
    files = [path] if path.is_file() else path.iterdir()
    return any(file.suffix.lower() in _READERS for file in files)


def _data_files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    found = sorted(file for file in path.iterdir() if file.suffix.lower() in _READERS)
    if not found:
        raise DocumentsError(
            f"The folder {path} holds no {', '.join(sorted(_READERS))} file.",
            "Of a folder of texts `precis questions make` makes a corpus.",
        )
    return found


def _file_rows(path: Path) -> Iterator[CorpusRow]:
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise DocumentsError(f"{path}: not one of {', '.join(sorted(_READERS))}.")
    try:
        if reader != "parquet":
            _check_utf8(path)
        names, rows = _load(path, reader)
    except DocumentsError:
        raise
    except Exception as error:  # the readers raise Arrow's, pandas' and datasets' own errors
        line = _broken_line(path) if path.suffix.lower() == ".jsonl" else None
        why = f"line {line}: {_innermost(error)}" if line else _innermost(error)
        raise DocumentsError(
            f"{path} can't be read as {reader} ({why}): see whether the file is whole, and is "
            "what its name says."
        ) from error
    return _check_columns(str(path), names, rows)


def _load(path: Path, reader: str) -> tuple[Sequence[str], Iterable[Mapping[str, Any]]]:
    """Return the columns and all rows of a file."""
    if not _has_rows(path, reader):
        raise DocumentsError(f"{path} holds no rows: give one for each question.")
    if reader == "parquet":
        from pyarrow import parquet

        table = parquet.read_table(path)
        batches = table.to_batches(max_chunksize=_BATCH)
        return table.column_names, chain.from_iterable(batch.to_pylist() for batch in batches)
    import datasets  # takes a second, and 60 MiB

    datasets.disable_progress_bars()
    datasets.logging.set_verbosity(logging.CRITICAL)  # it tells of errors before it raises them
    options: dict[str, Any] = {}
    if reader == "csv":
        # Ids and amounts stay text, whatever they look like.
        with path.open(newline="", encoding="utf-8-sig") as lines:
            header = next(csv.reader(lines), [])
        strings = {column: datasets.Value("string") for column in header}
        options = {"features": datasets.Features(strings), "keep_default_na": False}
    rows = datasets.load_dataset(reader, data_files=str(path), split="train", **options)
    return rows.column_names, rows


def _has_rows(path: Path, reader: str) -> bool:
    """Return whether there is anything to read, which datasets takes for granted."""
    if reader == "parquet":
        from pyarrow import parquet

        rows: int = parquet.read_metadata(path).num_rows
        return rows > 0
    with path.open(newline="", encoding="utf-8-sig") as lines:
        records = csv.reader(lines) if reader == "csv" else lines
        filled = (record for record in records if "".join(record).strip())
        if reader == "csv":
            next(filled, None)  # the header
        return next(filled, None) is not None


def _check_columns(
    origin: str, names: Sequence[str], rows: Iterable[Mapping[str, Any]]
) -> Iterator[CorpusRow]:
    """Rows in order, once every column is known to be there."""
    for column in COLUMNS:
        if column not in names:
            raise DocumentsError(
                f"{origin}, row 1, column {column!r}: missing.",
                f"The file has {', '.join(names)}; RepLiQA's columns are {', '.join(COLUMNS)}.",
            )
    return (CorpusRow(origin, number, values) for number, values in enumerate(rows, start=1))


def _check_utf8(path: Path) -> None:
    try:
        with path.open(encoding="utf-8") as lines:
            for _ in lines:
                pass
    except UnicodeDecodeError as error:
        place = 1, COLUMNS[0]
        with path.open(encoding="utf-8", errors="replace", newline="") as lines:
            is_csv = path.suffix.lower() == ".csv"
            rows = csv.DictReader(lines) if is_csv else map(json.loads, lines)
            cells = ((row, *cell) for row, cells in enumerate(rows, 1) for cell in cells.items())
            for row, column, value in cells:
                if "\ufffd" in f"{column}{value}":
                    place = row, str(column)
                    break
        raise DocumentsError(
            f"{path}, row {place[0]}, column {place[1]!r}: not UTF-8 ({error.reason}).",
            "Convert the file to UTF-8.",
        ) from error


def _broken_line(path: Path) -> int | None:
    """Return the first line that is no JSON; None where each is, or the file can't be opened."""
    try:
        with path.open(encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, start=1):
                try:
                    json.loads(line.strip() or "null")
                except ValueError:
                    return number
    except OSError:
        return None
    return None


def _innermost(error: BaseException) -> str:
    """Return the first sentence of what an error came from."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().splitlines()
    return lines[0].partition(". ")[0].rstrip(".!") if lines else type(error).__name__
