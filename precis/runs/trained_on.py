"""The scenarios that a run trains on, kept in the store beside its ledger.

A benchmark on other scenarios looks there for those that the model may have learned by heart.
"""

import hashlib
import json
from collections.abc import Iterable

from precis.records.ledger import Ledger
from precis.store import Store, open_store


def keep_trained_on(store: Store, ledger: Ledger, contents: Iterable[str]) -> None:
    """Store the contents of the scenarios that a run trains on, with those of the run it began
    from."""
    if _read_note(store, ledger.model) is not None:
        return
    digests = set(map(_digest, contents))
    if ledger.origin:
        digests |= _read_note(open_store(ledger.origin.store), ledger.origin.model) or set()
    store.put(_key(ledger.model), json.dumps(sorted(digests)).encode())


def trained_on(store: Store, model: str, contents: Iterable[str]) -> list[bool] | None:
    """Return for each of the contents whether a model may have been trained on it. None where the
    store does not say."""
    digests = _read_note(store, model)
    if digests is None:
        return None
    return [_digest(content) in digests for content in contents]


def _read_note(store: Store, model: str) -> set[str] | None:
    """Return the digests that the store has; None if it has none, or they are damaged."""
    blob = store.get(_key(model))
    try:
        return set(json.loads(blob.data)) if blob else None
    except (ValueError, TypeError):
        return None


def _key(model: str) -> str:
    return f"{model}/trained-on.json"


def _digest(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()[:16]
