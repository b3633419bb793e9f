"""Results for an audit of the judge."""

from pathlib import Path

import polars as pl

from precis.records.documents import Document, Question
from precis.records.results import Provenance
from precis.records.verdict import Answer, Scored, Verdict
from tests.support.results import answers, write_tables
from tests.support.summaries import JudgedSummary, Summary

FROM = Provenance(
    run="r",
    model="trained",
    step=3,
    judge="lexical-judge",
    protocol="batched v1",
    prompts_digest="p",
    corpus_digest="c",
    code_version="v",
)


_UNKNOWN = Question("x", "Who won?", "UNANSWERABLE", answerable=False)


def document(id: str) -> Document:
    asked = [Question(f"{id}-{n}", f"Question {n}?", f"Gold {n}", answerable=True) for n in (1, 2)]
    return Document(id, "news", "Some text.", (*asked, _UNKNOWN))


def scored(document: Document, *correct: bool) -> Scored:
    rulings = [*correct, True]
    return Scored(
        tuple(
            Answer(question.id, f"Answer to {question.id}", ruling, question.answerable)
            for question, ruling in zip(document.questions, rulings, strict=True)
        )
    )


def judged(id: str, verdict: Verdict | None = None, text: str = "A summary.") -> JudgedSummary:
    one = document(id)
    return JudgedSummary(one, Summary(text), verdict or scored(one, True, False))


def results(*some: JudgedSummary) -> pl.DataFrame:
    """What an audit reads of some summaries."""
    return answers(some, FROM)


def write(path: Path, *some: JudgedSummary) -> None:
    """The files of a benchmark of some summaries."""
    write_tables(some, FROM, path)
