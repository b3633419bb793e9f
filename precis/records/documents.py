"""Documents and their questions, read from RepLiQA's schema.

One row is one question; rows with the same `document_id` make a document.
"""

import logging
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from precis.config import DocumentsConfig, DocumentSource, OtherDocuments
from precis.errors import DocumentsError
from precis.record import json_digest
from precis.records.rows import CorpusRow, read_rows
from precis.text import count_of

UNANSWERABLE = "UNANSWERABLE"
"""The answer to a question that a text does not answer: the golden one, and a judge's."""
_UNANSWERABLE = {"unanswerable", "the answer is not found in the document"}
MADE_BY_RULES = "cloze"
"""In the ids of questions made by rules, by which a report recognizes them."""
CRUDE = (
    "The questions were made by rules (cloze): a number, a date or a name was left out of the "
    "documents' own sentences. They are crude, since the importance of these facts was not judged: "
    "figures that rest on them are for a first look."
)

logger = logging.getLogger(__name__)

Warn = Callable[[str], None]


@dataclass(frozen=True)
class Question:
    """One question about a document.

    Attributes:
        id: unique in its corpus.
        text: the question.
        answer: the golden short answer; `UNANSWERABLE` if the document has none.
        answerable: whether the document answers it; only these earn reward.
        long_answer: the passage with the answer; empty if unknown.
    """

    id: str
    text: str
    answer: str
    answerable: bool
    long_answer: str = ""


@dataclass(frozen=True)
class Document:
    """A text to summarize, and its questions."""

    id: str
    topic: str
    text: str
    questions: tuple[Question, ...]

    @property
    def asked(self) -> int:
        """The number of its answerable questions; only these earn reward."""
        return sum(question.answerable for question in self.questions)


@dataclass(frozen=True)
class Corpus:
    """Documents, split into those to train on and those held out."""

    train: tuple[Document, ...]
    validation: tuple[Document, ...]

    @cached_property
    def digest(self) -> str:
        """SHA-256 over both parts: texts, questions and answers."""
        parts = [list(map(_content, part)) for part in (self.train, self.validation)]
        return json_digest(parts)


def load_corpus(config: DocumentsConfig, warn: Warn = logger.warning) -> Corpus:
    """Read and split a corpus; `warn` reports what is left out. Raises DocumentsError with file,
    row and column, or if there are too few for the split."""
    return split(read_documents(config, warn), config)


def load_others(config: OtherDocuments, warn: Warn = logger.warning) -> Corpus:
    """Read documents to benchmark on, none of them to train on; see `load_corpus`."""
    documents = sorted(read_documents(config, warn), key=lambda document: document.id)
    if config.count is None:
        return Corpus(train=(), validation=tuple(documents))
    if len(documents) < config.count:
        raise DocumentsError(
            f"{config.source} has {count_of(len(documents), 'document')}, but test_documents.count "
            f"asks for {config.count}: lower it, or leave it empty to take them all."
        )
    return Corpus((), tuple(random.Random(config.seed).sample(documents, config.count)))


def read_documents(config: DocumentSource, warn: Warn = logger.warning) -> list[Document]:
    """Read all documents of a source with an answerable question; `warn` reports the number of
    others. Raises DocumentsError with file, row and column, or if no document has one."""
    documents = group(read_rows(config))
    usable = [document for document in documents if document.asked]
    if not usable:
        raise DocumentsError(
            f"{config.source} has {count_of(len(documents), 'document')} and not one question "
            "that its document answers: every answer is UNANSWERABLE.",
            "Give answers to learn from.",
        )
    if len(usable) < len(documents):
        warn(
            f"{len(documents) - len(usable):,} of {len(documents):,} documents have no answerable "
            "question and are left out."
        )
    return usable


def _content(document: Document) -> list[Any]:
    """Return the values for a corpus's digest, field by field: a new field must not change it."""
    questions = []
    for one in document.questions:
        questions.append([one.id, one.text, one.answer, one.answerable, one.long_answer])
    return [document.id, document.topic, document.text, questions]


def split(documents: Sequence[Document], config: DocumentsConfig) -> Corpus:
    """Hold out `val_size` documents and train on `train_size` others, by the seed alone."""
    wanted = config.train_size + config.val_size
    if len(documents) == 1:
        raise DocumentsError(
            f"{config.source} has 1 document: give at least 2, one to train on and one to hold out."
        )
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


def group(rows: Iterable[CorpusRow]) -> list[Document]:
    """Group rows into documents, in order of appearance. Raises DocumentsError if a value is empty,
    a question's id appears twice, or two rows of one document have different texts."""
    firsts: dict[str, CorpusRow] = {}
    questions: dict[str, list[Question]] = {}
    seen: dict[str, CorpusRow] = {}
    for row in rows:
        first = firsts.setdefault(row["document_id"], row)
        if row["document_extracted"] != first["document_extracted"]:
            raise row.problem("document_extracted", f"differs from that of {first.place}")
        id = row["question_id"]
        twin = seen.setdefault(id, row)
        if twin is not row:
            raise row.problem("question_id", f"{id!r} is already that of {twin.place}")
        answerable = row["answer"].strip().rstrip(".").lower() not in _UNANSWERABLE
        questions.setdefault(row["document_id"], []).append(
            Question(
                id=id,
                text=row["question"],
                answer=row["answer"] if answerable else UNANSWERABLE,
                answerable=answerable,
                long_answer=row["long_answer"] if answerable else "",
            )
        )
    documents = []
    for key, row in firsts.items():
        text = row["document_extracted"]
        documents.append(Document(key, row["document_topic"], text, tuple(questions[key])))
    return documents


def crudeness_of(documents: Iterable[Document]) -> str:
    """Return the caveat for documents with questions made by rules, or ""."""
    for document in documents:
        if any(f"-{MADE_BY_RULES}" in question.id for question in document.questions):
            return CRUDE
    return ""
