"""Documents of a sentence each, no two with the same."""

from precis.records.documents import Corpus, Document, Question


def document(number: int) -> Document:
    question = Question(f"q{number}", "Who?", "the mayor", True)
    return Document(f"d{number}", "News", f"The mayor opened bridge {number}.", (question,))


CORPUS = Corpus(
    train=tuple(document(number) for number in range(12)),
    validation=tuple(document(number) for number in range(12, 16)),
)
