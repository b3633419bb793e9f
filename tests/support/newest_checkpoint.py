"""The newest whole checkpoint, and where a checkpoint's files lie, as tests ask for them."""

from precis.records.manifests import Checkpoint, File
from precis.run.checkpoints import complete_around, manifest
from precis.store import Store


def newest_whole(store: Store, model: str, at_most: int = 9999) -> Checkpoint | None:
    """The newest whole checkpoint up to a step; None if none is whole."""
    found = complete_around(store, model, at_most, lambda _: None)
    return next((found[step] for step in sorted(found, reverse=True) if step <= at_most), None)


def file_key(store: Store, model: str, step: int, path: str) -> str:
    """Where the store keeps a file of a committed checkpoint."""
    checkpoint = manifest(store, model, step)
    assert checkpoint is not None
    return checkpoint.key_of(File(path=path, bytes=0, sha256="0" * 64))
