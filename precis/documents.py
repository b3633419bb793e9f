"""Documents and their questions, read from RepLiQA's schema.

One row is one question; rows with the same `document_id` make a document.
"""

import csv
import hashlib
import json
import logging
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

from precis.config import DocumentsConfig
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
_UNANSWERABLE = {"unanswerable", "the answer is not found in the document"}
_READERS = {".parquet": "parquet", ".jsonl": "json", ".json": "json", ".csv": "csv"}

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Question:
    """One question about a document.

    Attributes:
        id: unique in its corpus.
        text: the question.
        answer: the golden short answer; `UNANSWERABLE` where the document has none.
        answerable: whether the document answers it; only these earn reward.
        long_answer: the passage that the answer rests on; empty where unknown.
    """

    id: str
    text: str
    answer: str
    answerable: bool
    long_answer: str = ""


@dataclass(frozen=True)
class Document:
    """A text to summarize, and what is asked about it."""

    id: str
    topic: str
    text: str
    questions: tuple[Question, ...]


@dataclass(frozen=True)
class Row:
    """A row of a corpus and where it stands, for error messages."""

    origin: str
    number: int
    values: Mapping[str, Any]

    def __getitem__(self, column: str) -> str:
        value = self.values.get(column)
        text = "" if value is None else str(value)
        if not text.strip() and column not in _MAY_BE_EMPTY:
            raise self.problem(column, "is empty")
        return text

    def problem(self, column: str, what: str) -> DocumentsError:
        return DocumentsError(f"{self.origin}, row {self.number}, column {column!r}: {what}.")


@dataclass(frozen=True)
class Corpus:
    """Documents, split into those to train on and those held out."""

    train: tuple[Document, ...]
    validation: tuple[Document, ...]

    def batch(self, seed: int, step: int, size: int) -> tuple[Document, ...]:
        """The training documents of a step: a pure function of seed and step.

        Each epoch goes through all documents in an order of its own.
        """
        positions = range(step * size, (step + 1) * size)
        return tuple(self._in_epoch(seed, *divmod(at, len(self.train))) for at in positions)

    @cached_property
    def digest(self) -> str:
        """SHA-256 over both parts: texts, questions and answers."""
        return hashlib.sha256(repr((self.train, self.validation)).encode()).hexdigest()

    def _in_epoch(self, seed: int, epoch: int, at: int) -> Document:
        order = list(range(len(self.train)))
        random.Random(f"{seed}/{epoch}").shuffle(order)
        return self.train[order[at]]


def load_corpus(config: DocumentsConfig) -> Corpus:
    """Read and split a corpus.

    Raises:
        DocumentsError: it can't be read, or is smaller than the split asks for. Names file,
            row and column.
    """
    return split(read_documents(config), config)


def read_documents(config: DocumentsConfig) -> list[Document]:
    """All documents of a source that have an answerable question."""
    documents = group(_rows(config))
    usable = [one for one in documents if any(question.answerable for question in one.questions)]
    if len(usable) < len(documents):
        logger.warning(
            "%d of %d documents have no answerable question and are left out.",
            len(documents) - len(usable),
            len(documents),
        )
    return usable


def split(documents: Sequence[Document], config: DocumentsConfig) -> Corpus:
    """Hold out `val_size` documents and train on `train_size` others, by the seed alone."""
    wanted = config.train_size + config.val_size
    if len(documents) < wanted:
        raise DocumentsError(
            f"{config.source} has {len(documents)} documents, but train_size "
            f"{config.train_size} + val_size {config.val_size} = {wanted} were asked for: lower "
            "train_size (TRAIN_SIZE) or val_size (VAL_SIZE)."
        )
    shuffled = sorted(documents, key=lambda document: document.id)
    random.Random(config.seed).shuffle(shuffled)
    return Corpus(
        train=tuple(shuffled[config.val_size : wanted]),
        validation=tuple(shuffled[: config.val_size]),
    )


def group(rows: Iterable[Row]) -> list[Document]:
    """Put rows together to documents, in order of appearance.

    Raises:
        DocumentsError: a value is empty, a question's id appears twice, or two rows of one
            document carry different texts.
    """
    firsts: dict[str, Row] = {}
    questions: dict[str, list[Question]] = {}
    seen: dict[str, Row] = {}
    for row in rows:
        first = firsts.setdefault(row["document_id"], row)
        if row["document_extracted"] != first["document_extracted"]:
            raise row.problem("document_extracted", f"differs from that of row {first.number}")
        if (twin := seen.setdefault(row["question_id"], row)) is not row:
            raise row.problem(
                "question_id", f"{row['question_id']!r} is already that of row {twin.number}"
            )
        questions.setdefault(row["document_id"], []).append(_question(row))
    return [
        Document(key, row["document_topic"], row["document_extracted"], tuple(questions[key]))
        for key, row in firsts.items()
    ]


def _question(row: Row) -> Question:
    answerable = row["answer"].strip().rstrip(".").lower() not in _UNANSWERABLE
    return Question(
        id=row["question_id"],
        text=row["question"],
        answer=row["answer"] if answerable else "UNANSWERABLE",
        answerable=answerable,
        long_answer=row["long_answer"] if answerable else "",
    )


def _rows(config: DocumentsConfig) -> Iterator[Row]:
    if config.source == "bundled":
        return _file_rows(Path(str(files("precis.data") / "fictional.parquet")))
    if (path := Path(config.source).expanduser()).exists():
        return (row for file in _data_files(path) for row in _file_rows(file))
    if config.source.count("/") == 1 and not path.suffix:
        return _hub_rows(config.source, config.hub_split)
    raise DocumentsError(
        f"{config.source} is neither a file or folder here nor a data set's name on the Hub "
        "(owner/name)."
    )


def _data_files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    found = sorted(file for file in path.iterdir() if file.suffix.lower() in _READERS)
    if not found:
        raise DocumentsError(f"The folder {path} holds no {', '.join(sorted(_READERS))} file.")
    return found


def _file_rows(path: Path) -> Iterator[Row]:
    import datasets  # takes a second: only those who read documents wait for it

    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise DocumentsError(f"{path}: not one of {', '.join(sorted(_READERS))}.")
    if reader != "parquet":
        _check_utf8(path)
    datasets.disable_progress_bars()
    options: dict[str, Any] = {}
    if reader == "csv":
        # Ids and amounts stay text, whatever they look like.
        strings = {column: datasets.Value("string") for column in _header(path)}
        options = {"features": datasets.Features(strings), "keep_default_na": False}
    try:
        rows = datasets.load_dataset(reader, data_files=str(path), split="train", **options)
    except datasets.exceptions.DatasetGenerationError as error:
        raise DocumentsError(f"{path} can't be read as {reader}: {_innermost(error)}") from error
    return _checked(str(path), rows)


def _hub_rows(name: str, hub_split: str) -> Iterator[Row]:
    import datasets

    try:
        rows = datasets.load_dataset(name, split=hub_split)
    except Exception as error:  # the Hub's client raises some twenty unrelated types
        raise DocumentsError(
            f"The data set {name} (split {hub_split}) can't be loaded from the Hub: "
            f"{_innermost(error)}. Check its name and split and the network, or give a local file."
        ) from error
    return _checked(f"{name} ({hub_split})", rows)


def _checked(origin: str, rows: Any) -> Iterator[Row]:
    """Rows in order, once every column is known to be there."""
    for column in COLUMNS:
        if column not in rows.column_names:
            raise DocumentsError(
                f"{origin}, row 1, column {column!r}: missing. The file has "
                f"{', '.join(rows.column_names)}; RepLiQA's columns are {', '.join(COLUMNS)}."
            )
    return (Row(origin, number, values) for number, values in enumerate(rows, start=1))


def _check_utf8(path: Path) -> None:
    try:
        with path.open(encoding="utf-8") as lines:
            for _ in lines:
                pass
    except UnicodeDecodeError as error:
        row, column = _first_replaced(path)
        raise DocumentsError(
            f"{path}, row {row}, column {column!r}: not UTF-8 ({error.reason}). Convert the file "
            "to UTF-8."
        ) from error


def _first_replaced(path: Path) -> tuple[int, str]:
    """Row and column of the first byte that is not UTF-8."""
    with path.open(encoding="utf-8", errors="replace", newline="") as lines:
        rows = csv.DictReader(lines) if path.suffix.lower() == ".csv" else map(json.loads, lines)
        for number, row in enumerate(rows, start=1):
            for column, value in row.items():
                if "\ufffd" in f"{column}{value}":
                    return number, str(column)
    return 1, COLUMNS[0]


def _header(path: Path) -> list[str]:
    with path.open(newline="", encoding="utf-8-sig") as lines:
        return next(csv.reader(lines), [])


def _innermost(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
