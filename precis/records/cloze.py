"""Questions made by rules, and the caveat for figures that depend on them."""

from collections.abc import Iterable

from precis.records.documents import Document

MARK = "cloze"
"""In the ids of such questions, by which a report recognizes them."""
CRUDE = (
    "The questions were made by rules (cloze): a number, a date or a name was left out of the "
    "documents' own sentences. They are crude, since the importance of these facts was not judged: "
    "figures that rest on them are for a first look."
)


def crudeness_of(documents: Iterable[Document]) -> str:
    """Return the caveat for documents with questions made by rules, or ""."""
    for document in documents:
        if any(f"-{MARK}" in question.id for question in document.questions):
            return CRUDE
    return ""
