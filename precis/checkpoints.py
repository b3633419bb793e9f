"""Checkpoints in a store: files, then the manifest, then the pointer.

The manifest is written last of a checkpoint's files, so a checkpoint with a manifest is whole;
one without does not exist. `latest.json` then names the newest one.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from precis.config import Settings
from precis.errors import CorruptCheckpoint, StoreError
from precis.store import Store


class File(Settings):
    """A file of a checkpoint."""

    path: str
    bytes: int
    sha256: str


class Checkpoint(Settings):
    """A checkpoint's manifest."""

    model: str
    step: int
    parent: int | None
    config: str
    files: tuple[File, ...]


def checkpoint_key(model: str, step: int) -> str:
    """The folder of one checkpoint; it ends in a slash."""
    return f"{model}/checkpoints/{step:04d}/"


def commit(store: Store, model: str, step: int, folder: Path, config: str) -> Checkpoint:
    """Make the checkpoint in `folder` part of the store and the latest of its model.

    Doing it again has no further effect. `config` is the digest of the run's settings.

    Raises:
        StoreError: nothing was committed; the pointer still names the checkpoint before.
        StoreConflict: another run moved the pointer in between.
    """
    key = checkpoint_key(model, step)
    pointer = store.get(f"{model}/latest.json")
    files = tuple(_file(folder, path) for path in _files(folder))
    if not files:
        raise StoreError(f"The checkpoint folder {folder} is empty: nothing to commit.")
    checkpoint = Checkpoint(
        model=model, step=step, parent=step - 1 if step else None, config=config, files=files
    )
    for file in files:
        store.upload(folder / file.path, key + file.path)
    store.put(f"{key}manifest.json", _json(checkpoint))
    store.put_if(
        f"{model}/latest.json",
        json.dumps({"step": step}).encode(),
        pointer.version if pointer else None,
    )
    return checkpoint


def manifest(store: Store, model: str, step: int) -> Checkpoint | None:
    """A committed checkpoint's manifest; None if it was never completed.

    Raises:
        CorruptCheckpoint: the manifest can't be understood.
    """
    blob = store.get(f"{checkpoint_key(model, step)}manifest.json")
    try:
        return Checkpoint.model_validate_json(blob.data) if blob else None
    except ValidationError as error:
        raise CorruptCheckpoint(
            f"{store.url}/{checkpoint_key(model, step)}manifest.json is damaged: {error}"
        ) from error


def committed_steps(store: Store, model: str) -> list[int]:
    """The steps of all whole checkpoints, ascending."""
    names = (key.split("/") for key in store.keys(f"{model}/checkpoints/"))
    return sorted(int(parts[-2]) for parts in names if parts[-1] == "manifest.json")


def restore(store: Store, model: str, step: int, into: Path) -> Checkpoint:
    """Bring a checkpoint into the folder `into`, which is replaced in one move once verified.

    Raises:
        CorruptCheckpoint: it was never completed, or a file differs from the manifest.
    """
    key = checkpoint_key(model, step)
    checkpoint = manifest(store, model, step)
    if checkpoint is None:
        raise CorruptCheckpoint(f"{store.url}/{key} has no manifest: it was never completed.")
    incoming = into.with_name(f".{into.name}.incoming")
    shutil.rmtree(incoming, ignore_errors=True)
    for file in checkpoint.files:
        target = incoming / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        store.download(key + file.path, target)
        if _file(incoming, target) != file:
            raise CorruptCheckpoint(f"{store.url}/{key}{file.path} differs from its manifest.")
    shutil.rmtree(into, ignore_errors=True)
    os.replace(incoming, into)
    return checkpoint


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def _file(folder: Path, path: Path) -> File:
    with path.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    return File(path=path.relative_to(folder).as_posix(), bytes=path.stat().st_size, sha256=digest)


def _json(record: Settings) -> bytes:
    return record.model_dump_json(indent=1).encode()
