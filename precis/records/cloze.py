"""Questions that rules have made, and what is to be said wherever figures rest on them."""

from collections.abc import Iterable

from precis.records.documents import Document

MARK = "cloze"
"""The ids of such questions have it, wherever they go: that is how a report knows them."""
CRUDE = (
    "The questions were made by rules (cloze): a number, a date or a name was left out of the "
    "documents' own sentences. They are crude, since nobody has judged whether these facts matter: "
    "figures that rest on them are for a first look."
)


def crudeness_of(documents: Iterable[Document]) -> str:
    """Return what is to be said of documents whose questions rules have made; else nothing."""
    for document in documents:
        if any(f"-{MARK}" in question.id for question in document.questions):
            return CRUDE
    return ""
