"""A document as a scenario."""

from dataclasses import asdict

from precis.records.documents import Document
from precis.records.rollout import Scenario


def scenario_of(document: Document) -> Scenario:
    """Return a document as the start of a group."""
    questions = list(map(asdict, document.questions))
    data = {"topic": document.topic, "text": document.text, "questions": questions}
    return Scenario(document.id, data)
