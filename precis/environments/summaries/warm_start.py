"""The summaries of a warm start's file, and their documents."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from precis.environments.summaries.prompt import scenario_of, summary_messages
from precis.environments.summaries.rewards import disqualify
from precis.errors import DocumentsError
from precis.records.documents import Corpus, Document
from precis.records.rollout import Scenario
from precis.records.rows import CorpusRow, read_objects
from precis.records.warm_start import Demonstration, ShownConversation
from precis.text import count_words, tokens


def read_summaries(
    file: str, corpus: Corpus, words_max: int
) -> Iterator[tuple[Demonstration, Scenario | None]]:
    """Yield a demonstration for each row of a file, with its document. Raises DocumentsError if a
    row lacks its summary or document."""
    known = _KnownDocuments(corpus)
    path = Path(os.path.expanduser(file))
    for number, values in enumerate(read_objects(path), start=1):
        summary = CorpusRow(str(path), number, values)["summary"]
        given = {column: value for column, value in values.items() if value is not None}
        name = str(given.get("document_id", ""))
        text = str(given.get("text", ""))
        if not name.strip() and not text.strip():
            where = f"{path}, row {number}"
            raise DocumentsError(f"{where}: give the document's 'document_id' or its 'text'.")
        found = known.find(name, text)
        if isinstance(found, str):
            yield Demonstration(scenario_id=name, cause=found), None
            continue
        cause = disqualify(summary, found, words_max)
        if cause:
            yield Demonstration(scenario_id=found.id, cause=cause), None
            continue
        answer = {"role": "assistant", "content": summary}
        asked = summary_messages(found.text, words_max)
        shown = Demonstration(
            scenario_id=found.id,
            conversations=(ShownConversation(messages=(*asked, answer)),),
            metrics={"words": count_words(summary)},
        )
        yield shown, scenario_of(found)


class _KnownDocuments:
    """The documents of a corpus, by id and by text."""

    def __init__(self, corpus: Corpus) -> None:
        self._train = {one.id: one for one in corpus.train}
        self._train_by_text = {_normal(one.text): one for one in corpus.train}
        self._held_out = {one.id: _normal(one.text) for one in corpus.validation}

    def find(self, name: str, given: str) -> Document | str:
        """Return a summary's training document, a new one with the given text, or the cause why it
        is left out."""
        text = _normal(given)
        # True for a held-out text, a part of one, or a text that contains one.
        if name in self._held_out or (
            text and any(text in other or other in text for other in self._held_out.values())
        ):
            return "held_out"
        if not text:
            return self._train.get(name, "no_such_document")
        if text in self._train_by_text:
            return self._train_by_text[text]
        if name in self._train:
            # As a separate document it would be imitated while the steps draw the original.
            return "other_text"
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        return Document(f"warm-start-{digest}", "", given, ())


def _normal(text: str) -> str:
    """Return the words of a text with spaces around each, so that only whole words match."""
    words = tokens(text)
    return f" {' '.join(words)} " if words else ""
