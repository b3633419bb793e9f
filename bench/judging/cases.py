"""Summaries to judge, and what the model makes of each."""

from dataclasses import dataclass
from random import Random

from bench.judging.model import answer, grade
from precis.config import DocumentsConfig
from precis.environments.summaries.judge import Answer, Scored
from precis.environments.summaries.judge.prompts import UNANSWERABLE
from precis.records.documents import Document, Question, read_documents
from precis.text import sentences


@dataclass(frozen=True)
class Case:
    """A document with one of its summaries."""

    document: Document
    summary: str


def cases(groups: int, rollouts: int, seed: int) -> list[Case]:
    """So many summaries of so many documents: a random third of a document's sentences."""
    draw = Random(seed)
    documents = read_documents(DocumentsConfig())
    cases = []
    for document in draw.sample(documents, groups):
        for _ in range(rollouts):
            cases.append(Case(document, a_third(document.text, draw)))
    return cases


def a_third(text: str, draw: Random) -> str:
    """A random third of a text's sentences, in order."""
    found = sentences(text)
    kept = sorted(draw.sample(range(len(found)), len(found) // 3))
    return " ".join(found[index] for index in kept)


def truth(case: Case) -> Scored:
    """The verdict that the model comes to, without HTTP or protocol."""
    return Scored(tuple(_ruled(case.summary, question) for question in case.document.questions))


def _ruled(summary: str, question: Question) -> Answer:
    said = answer(summary, question.text)
    if question.answerable:
        correct = said != UNANSWERABLE and grade(question.answer, said)
    else:
        correct = said == UNANSWERABLE
    return Answer(question.id, said, correct, question.answerable)
