"""A document, a summary of it, and where the results on it come from."""

from precis.records.documents import Document, Question
from precis.records.results import (
    Provenance,
)
from tests.support.summaries import Summary

DOCUMENT = Document(
    id="d1",
    topic="Local News",
    text="The bridge opened in May.",
    questions=(
        Question("q1", "When did the bridge open?", "In May", answerable=True),
        Question("q2", "Who paid?", "UNANSWERABLE", answerable=False),
    ),
)


SUMMARY = Summary("The bridge opened in May.", seconds=0.5, prompt_tokens=40, usd=0.001)


def provenance(model: str = "trained", step: int | None = 3) -> Provenance:
    return Provenance("run-1", model, step, "lexical-judge", "batched/1", "p0", "c0", "0.1.0")
