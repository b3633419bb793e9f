"""The documents of a warm start, which are neither drawn by steps nor held out."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from precis.config import WarmStartConfig
from precis.environments.demonstrations import WarmStart, count_apart, take
from precis.environments.summaries.prompt import scenario_of, summary_messages
from precis.environments.summaries.rewards import disqualify
from precis.errors import DocumentsError
from precis.record import json_digest
from precis.records.demonstrations import Demonstration, ShownConversation
from precis.records.documents import Corpus, Document
from precis.records.rows import read_objects
from precis.text import count_words, tokens


@dataclass(frozen=True)
class GivenSummary:
    """A row of the file; its document's id or text may be empty."""

    document_id: str
    text: str
    summary: str


def read_summaries(path: Path) -> list[GivenSummary]:
    """Return all rows of a file. Raises DocumentsError if one lacks its summary or document."""
    given = []
    for number, row in enumerate(read_objects(path), start=1):
        where = f"{path}, row {number}"
        texts = {}
        for column in ("document_id", "text", "summary"):
            value = row.get(column)
            texts[column] = "" if value is None else str(value)
        if not texts["summary"].strip():
            raise DocumentsError(f"{where}, column 'summary': missing or empty.")
        if not texts["document_id"].strip() and not texts["text"].strip():
            raise DocumentsError(f"{where}: give the document's 'document_id' or its 'text'.")
        given.append(GivenSummary(**texts))
    return given


def prepare_warm_start(
    config: WarmStartConfig | None, corpus: Corpus, words_max: int
) -> tuple[WarmStart | None, Corpus]:
    """Choose the documents for a run's warm start, and return the corpus without them.

    Raises:
        DocumentsError: too few documents would be left, or the file can't be used.
        ConfigError: none of the file's summaries can be imitated.
    """
    if config is None:
        return None, corpus
    if config.source == "file":
        given = read_summaries(Path(os.path.expanduser(config.file)))
        documents, shown = _match(given, config, corpus, words_max)
        said = [(one.document_id, one.text, one.summary) for one in given]
        digest = json_digest(said)
    else:
        # The last ones, in the order drawn by the split's seed.
        available = len(corpus.train)
        count = count_apart(config, available)
        if not 0 < count < available:
            raise DocumentsError(
                f"warm_start sets {count} documents apart, of {available} training documents: "
                "lower warm_start.scenarios, or raise documents.train_size (TRAIN_SIZE)."
            )
        documents, shown, digest = corpus.train[-count:], (), ""
    apart = replace(corpus, warm_start=tuple(documents))
    if not apart.drawn:
        raise DocumentsError(
            "warm_start leaves no document for the steps: every training document has a summary in "
            "its file. Lower warm_start.scenarios, or raise documents.train_size (TRAIN_SIZE)."
        )
    return WarmStart(tuple(map(scenario_of, documents)), shown, digest), apart


def _match(
    given: Sequence[GivenSummary], config: WarmStartConfig, corpus: Corpus, words_max: int
) -> tuple[tuple[Document, ...], tuple[Demonstration, ...]]:
    """Return the documents of a file's summaries, and the demonstrations."""
    known = _KnownDocuments(corpus)
    documents: dict[str, Document] = {}

    def shown() -> Iterator[Demonstration]:
        for one in given:
            found = known.find(one)
            if isinstance(found, str):
                yield Demonstration(scenario_id=one.document_id, cause=found)
                continue
            cause = disqualify(one.summary, found, words_max)
            if cause:
                yield Demonstration(scenario_id=found.id, cause=cause)
                continue
            documents[found.id] = found
            answer = {"role": "assistant", "content": one.summary}
            asked = summary_messages(found.text, words_max)
            conversation = ShownConversation(messages=(*asked, answer))
            words = {"words": count_words(one.summary)}
            yield Demonstration(scenario_id=found.id, conversations=(conversation,), metrics=words)

    remedy = "Give the documents' texts in a column 'text', or the ids that `documents` has."
    demonstrations = take(shown(), config, remedy)
    return tuple(documents.values()), demonstrations


class _KnownDocuments:
    """The documents of a corpus, by id and by text."""

    def __init__(self, corpus: Corpus) -> None:
        self._train: dict[str, Document] = {}
        self._train_by_text: dict[str, Document] = {}
        for document in corpus.train:
            self._train[document.id] = document
            self._train_by_text[_normal(document.text)] = document
        # The texts of held-out documents, by id.
        self._held_out: dict[str, str] = {}
        for document in corpus.validation:
            self._held_out[document.id] = _normal(document.text)

    def find(self, one: GivenSummary) -> Document | str:
        """Return a summary's training document, a new one with the given text, or the cause why it
        is left out."""
        text = _normal(one.text)
        # True for a held-out text, a part of one, or a text that contains one.
        if one.document_id in self._held_out or (
            text and any(text in other or other in text for other in self._held_out.values())
        ):
            return "held_out"
        if not text:
            return self._train.get(one.document_id, "no_such_document")
        if text in self._train_by_text:
            return self._train_by_text[text]
        if one.document_id in self._train:
            # As a separate document it would be imitated while the steps draw the original.
            return "other_text"
        name = hashlib.sha256(text.encode()).hexdigest()[:16]
        return Document(f"warm-start-{name}", "", one.text, ())


def _normal(text: str) -> str:
    """Return the words of a text with spaces around each, so that only whole words match."""
    words = tokens(text)
    return f" {' '.join(words)} " if words else ""
