"""Summaries to judge."""

from dataclasses import dataclass
from random import Random

from precis.config import DocumentsConfig
from precis.records.documents import Document, read_documents
from precis.text import sentences


@dataclass(frozen=True)
class Case:
    """A document with one of its summaries."""

    document: Document
    summary: str


def cases(groups: int, rollouts: int, seed: int) -> list[Case]:
    """Return `rollouts` summaries of each of `groups` documents: a random third of its sentences
    each."""
    draw = Random(seed)
    documents = read_documents(DocumentsConfig())
    cases = []
    for document in draw.sample(documents, groups):
        for _ in range(rollouts):
            found = sentences(document.text)
            chosen = sorted(draw.sample(range(len(found)), len(found) // 3))
            cases.append(Case(document, " ".join(found[index] for index in chosen)))
    return cases
