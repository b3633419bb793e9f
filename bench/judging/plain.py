"""Which answers are ruled without a grader, and that none of them is wrong."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Annotated

import typer

from bench.judging.claims import require
from bench.judging.model import SET_DOWN
from bench.reading.alterations import opposites, other_names, other_numbers
from precis.config import DocumentsConfig
from precis.environments.summaries.judge.protocol import ruling
from precis.records.documents import Document, Question, read_documents
from precis.text import tokens


def plain(
    files: Annotated[
        list[str] | None, typer.Argument(help="Corpora in RepLiQA's columns; none: the bundled.")
    ] = None,
) -> None:
    """Rule on right and wrong answers as a model sets them down, without asking a grader."""
    print(f"{'':<24}{'right':>8}{'ruled right':>14}{'wrong':>9}{'ruled right':>14}")
    accepted = 0
    for file in files or ["bundled"]:
        documents = read_documents(DocumentsConfig(source=file))
        right = _count(right_answers(documents))
        wrong = _count(wrong_answers(documents))
        accepted += wrong[1]
        figures = f"{right[0]:>8,}{right[1]:>14,}{wrong[0]:>9,}{wrong[1]:>14,}"
        print(f"{Path(file).stem:<24}{figures}")
    require(accepted == 0, "A wrong answer was ruled right without a grader.")


Given = tuple[Question, str]
"""A question, and an answer to it."""


def right_answers(documents: Sequence[Document]) -> Iterator[Given]:
    """Set the golden answer of each question down in every way, and its sentence."""
    for question, _ in _answerable(documents):
        for said in (question.answer, question.long_answer):
            yield from _set_down(question, said)


def wrong_answers(documents: Sequence[Document]) -> Iterator[Given]:
    """Set down golden answers of the document's other questions, and altered ones of its own."""
    draw = Random(1)
    for question, document in _answerable(documents):
        golden = question.answer
        others = [one.answer for one in document.questions if one.answerable]
        altered = [
            *other_numbers(golden, draw),
            *other_names(golden, document.text, draw),
            *opposites(golden),
        ]
        for said in (*others, *altered):
            if tokens(said) != tokens(golden):
                yield from _set_down(question, said)


def _answerable(documents: Sequence[Document]) -> Iterator[tuple[Question, Document]]:
    for document in documents:
        for question in document.questions:
            if question.answerable:
                yield question, document


def _set_down(question: Question, said: str) -> Iterator[Given]:
    for form in SET_DOWN:
        yield question, form.format(said)


def _count(given: Iterator[Given]) -> tuple[int, int]:
    """Count the answers, and those that are ruled right."""
    rulings = [ruling(question, said) for question, said in given]
    return len(rulings), rulings.count(True)
