"""The corpus made from documents and their questions, in RepLiQA's columns."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from random import Random

import polars as pl

from precis.errors import DocumentsError, without_controls
from precis.questions.make import DocumentQuestions, document_of
from precis.questions.prompts import UNANSWERED, WrittenQuestion
from precis.records.rows import COLUMNS

ANSWERED_FOR_EACH_UNANSWERABLE = 4
"""A fifth of a corpus' questions have no answer in its documents, as in RepLiQA."""
TOPIC = "documents"
"""The topic of documents that are not in a subfolder."""


def rows_of(
    made: Sequence[DocumentQuestions], folder: Path, mark: str = "q"
) -> list[dict[str, str]]:
    """Return a row for each question; documents without kept questions have none. The number of
    unanswerable ones is as near as possible to a fifth of all: first one of each document, then the
    second ones. Question ids have `mark` before the number."""
    usable = [one for one in made if one.answered]
    taken = _unanswerable(usable)
    rows = []
    for place, one in enumerate(usable):
        path = Path(one.text.name)
        # The path may itself be a file.
        is_inside = path != folder and path.is_relative_to(folder)
        path = path.relative_to(folder) if is_inside else Path(path.name)
        path = Path(without_controls(str(path)))  # a name may have bytes that are not text
        topic = path.parent.as_posix() if path.parent.name else TOPIC
        document = document_of(one.text, [*one.answered, *taken.get(place, [])], topic, mark)
        for question in document.questions:
            is_quoted = question.long_answer in document.text
            row = {
                "document_id": document.id,
                "document_topic": document.topic,
                "document_path": path.as_posix(),
                "document_extracted": document.text,
                "question_id": question.id,
                "question": question.text,
                "answer": question.answer,
                "long_answer": question.long_answer if is_quoted else "",
            }
            rows.append(row)
    return rows


def write_corpus(rows: Sequence[dict[str, str]], path: Path) -> None:
    """Write rows as parquet, whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        schema = dict.fromkeys(COLUMNS, pl.String)
        pl.DataFrame(list(rows), schema=schema).write_parquet(temporary)
        os.replace(temporary, path)
    except (OSError, pl.exceptions.PolarsError) as error:
        reason = getattr(error, "strerror", None) or error  # an error of polars has none
        raise DocumentsError(f"Can't write {path}: {reason}. Choose another.") from error
    finally:
        with suppress(OSError):  # never created if the folder is not one
            temporary.unlink()


def _unanswerable(usable: Sequence[DocumentQuestions]) -> dict[int, list[WrittenQuestion]]:
    """Return the questions to take, by the index of their document."""
    answered = sum(len(one.answered) for one in usable)
    each = ANSWERED_FOR_EACH_UNANSWERABLE
    # Halves round up: of 2 answered ones and 1, a third; of 2 and none, nothing.
    wanted = (answered + each // 2) // each
    order = list(range(len(usable)))
    Random(answered).shuffle(order)
    offered: list[tuple[int, WrittenQuestion]] = []
    for rank in range(UNANSWERED):
        for place in order:
            # One of each document, or none if it has fewer.
            for question in usable[place].unanswered[rank : rank + 1]:
                offered.append((place, question))
    taken: dict[int, list[WrittenQuestion]] = {}
    for place, question in offered[:wanted]:
        taken.setdefault(place, []).append(question)
    return taken
