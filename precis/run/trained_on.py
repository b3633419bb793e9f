"""Which documents a run trains on, kept in the store beside its ledger.

A benchmark on documents of its own looks there for those that the model may have learned by heart.
"""

import hashlib
import json
from collections.abc import Iterable

from precis.records.documents import Corpus, Document
from precis.records.ledger import Ledger
from precis.store import Store, open_store


def keep_trained_on(store: Store, ledger: Ledger, corpus: Corpus) -> None:
    """Note the training documents of a run, and those of the run that it was begun with."""
    key = _key(ledger.model)
    if store.get(key) is not None:
        return
    digests = set(map(_digest, (*corpus.train, *corpus.warm_start)))
    origin = ledger.origin
    if origin:
        digests |= _read_note(open_store(origin.store), origin.model) or set()
    store.put(key, json.dumps(sorted(digests)).encode())


def trained_on(store: Store, model: str, documents: Iterable[Document]) -> list[Document] | None:
    """Those of the documents that a model may have been trained on; None where nobody knows."""
    digests = _read_note(store, model)
    if digests is None:
        return None
    return [document for document in documents if _digest(document) in digests]


def _read_note(store: Store, model: str) -> set[str] | None:
    blob = store.get(_key(model))
    return set(json.loads(blob.data)) if blob else None


def _key(model: str) -> str:
    return f"{model}/trained-on.json"


def _digest(document: Document) -> str:
    """Of the text alone: other questions on a text that was trained on are no clean test."""
    return hashlib.sha256(" ".join(document.text.split()).encode()).hexdigest()[:16]
