"""Checkpoints in a store: files, then the manifest, then the pointer.

The manifest is written last of a checkpoint's files, so a checkpoint with a manifest is whole;
one without does not exist. `latest.json` then names the newest one.

Whatever dies in between, the checkpoint before stays as it was: readers trust manifests, and
what a manifest does not vouch for is passed over and named.
"""

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from precis.config import Settings
from precis.errors import CorruptCheckpoint, StoreError
from precis.store import Store

_log = logging.getLogger(__name__)
_DOWNLOADS_MAX = 2
"""Downloads of a file that differs from its manifest, since the way here may have altered it."""


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


def pointer_key(model: str) -> str:
    """The object that names the newest checkpoint."""
    return f"{model}/latest.json"


def manifest_key(model: str, step: int) -> str:
    """The object that makes a checkpoint whole."""
    return f"{checkpoint_key(model, step)}manifest.json"


def commit(store: Store, model: str, step: int, folder: Path, config: str) -> Checkpoint:
    """Make the checkpoint in `folder` part of the store and the latest of its model.

    Doing it again has no further effect. `config` is the digest of the run's settings.

    Raises:
        StoreError: nothing was committed; the pointer still names the checkpoint before.
        StoreConflict: another run moved the pointer in between.
    """
    pointer = store.get(pointer_key(model))
    files = tuple(_file(folder, path) for path in _files(folder))
    if not files:
        raise StoreError(f"The checkpoint folder {folder} is empty: nothing to commit.")
    checkpoint = Checkpoint(
        model=model, step=step, parent=step - 1 if step else None, config=config, files=files
    )
    _put_files(store, checkpoint, folder)
    store.put_if(
        pointer_key(model),
        json.dumps({"step": step}).encode(),
        pointer.version if pointer else None,
    )
    return checkpoint


def manifest(store: Store, model: str, step: int) -> Checkpoint | None:
    """A committed checkpoint's manifest; None if it was never completed.

    Raises:
        CorruptCheckpoint: the manifest can't be understood.
    """
    blob = store.get(manifest_key(model, step))
    try:
        return Checkpoint.model_validate_json(blob.data) if blob else None
    except ValidationError as error:
        raise CorruptCheckpoint(
            f"{store.url}/{manifest_key(model, step)} is damaged: {error}"
        ) from error


def committed_steps(store: Store, model: str) -> list[int]:
    """The steps of all checkpoints with a manifest, ascending."""
    return steps_in(store.keys(f"{model}/checkpoints/"))


def steps_in(keys: Iterable[str]) -> list[int]:
    """The steps whose manifests are among a store's keys, ascending."""
    names = (key.split("/") for key in keys)
    return sorted(int(parts[-2]) for parts in names if parts[-1] == "manifest.json")


def newest_whole(
    store: Store,
    model: str,
    at_most: int | None = None,
    warn: Callable[[str], None] = _log.warning,
) -> Checkpoint | None:
    """The newest checkpoint whose files are all there in their full length; None if none is.

    Contents are not read: `restore` compares them. Each newer checkpoint that is passed over is
    named in a call of `warn`.

    Args:
        at_most: newer steps than this are not looked at, and not warned about.
    """
    sizes = store.sizes(f"{model}/checkpoints/")
    for step in reversed(steps_in(sizes)):
        if at_most is not None and step > at_most:
            continue
        try:
            return intact(store, model, step, sizes)
        except CorruptCheckpoint as error:
            warn(f"{error} The checkpoint before it is used.")
    return None


def intact(store: Store, model: str, step: int, sizes: Mapping[str, int]) -> Checkpoint:
    """A checkpoint's manifest, compared with the sizes of the store's keys.

    Raises:
        CorruptCheckpoint: it was never completed, or a file is missing or has another size.
    """
    key = checkpoint_key(model, step)
    checkpoint = manifest(store, model, step)
    if checkpoint is None:
        raise CorruptCheckpoint(f"{store.url}/{key} has no manifest: it was never completed.")
    for file in checkpoint.files:
        if (size := sizes.get(key + file.path)) != file.bytes:
            found = "is missing" if size is None else f"has {size} bytes"
            raise CorruptCheckpoint(
                f"{store.url}/{key}{file.path} {found}; its manifest says {file.bytes} bytes."
            )
    return checkpoint


def restore(store: Store, model: str, step: int, into: Path) -> Checkpoint:
    """Bring a checkpoint into the folder `into`, which is replaced in one move once verified.

    Raises:
        CorruptCheckpoint: it was never completed, or a file differs from the manifest.
    """
    key = checkpoint_key(model, step)
    checkpoint = intact(store, model, step, store.sizes(key))
    incoming = into.with_name(f".{into.name}.incoming")
    shutil.rmtree(incoming, ignore_errors=True)
    for file in checkpoint.files:
        _fetch(store, key + file.path, incoming, file)
    shutil.rmtree(into, ignore_errors=True)
    os.replace(incoming, into)
    return checkpoint


def _put_files(store: Store, checkpoint: Checkpoint, folder: Path) -> None:
    """Upload a checkpoint's files and its manifest, unless they are there from an earlier try."""
    model, step = checkpoint.model, checkpoint.step
    key, manifest_at = checkpoint_key(model, step), manifest_key(model, step)
    if store.get(manifest_at) is not None:
        with suppress(CorruptCheckpoint):
            if intact(store, model, step, store.sizes(key)) == checkpoint:
                return
        # An old manifest must not vouch for new files.
        store.delete(manifest_at)
    for file in checkpoint.files:
        store.upload(folder / file.path, key + file.path)
    store.put(manifest_at, _json(checkpoint))


def _fetch(store: Store, key: str, folder: Path, file: File) -> None:
    target = folder / file.path
    target.parent.mkdir(parents=True, exist_ok=True)
    for _ in range(_DOWNLOADS_MAX):
        store.download(key, target)
        if _file(folder, target) == file:
            return
    raise CorruptCheckpoint(f"{store.url}/{key} differs from its manifest.")


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def _file(folder: Path, path: Path) -> File:
    with path.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    return File(path=path.relative_to(folder).as_posix(), bytes=path.stat().st_size, sha256=digest)


def _json(record: Settings) -> bytes:
    return record.model_dump_json(indent=1).encode()
