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
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from precis.errors import CorruptCheckpoint, StoreError
from precis.ledger import StepRecord
from precis.settings import Settings
from precis.store import Blob, Store

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
    run: str = ""
    """The run that committed it."""
    files: tuple[File, ...]
    record: StepRecord | None = None
    """What the ledger says, or should say, of the step that made it; None for the first."""


def checkpoint_key(model: str, step: int) -> str:
    """The folder of one checkpoint; it ends in a slash."""
    return f"{model}/checkpoints/{step:04d}/"


def pointer_key(model: str) -> str:
    """The object that names the newest checkpoint."""
    return f"{model}/latest.json"


def manifest_key(model: str, step: int) -> str:
    """The object that makes a checkpoint whole."""
    return f"{checkpoint_key(model, step)}manifest.json"


def commit(
    store: Store,
    model: str,
    step: int,
    folder: Path,
    config: str,
    record: StepRecord | None = None,
    run: str = "",
) -> Checkpoint:
    """Make the checkpoint in `folder` part of the store and the latest of its model.

    Doing it again has no further effect.

    Args:
        config: digest of the run's settings.
        record: of the step that made it; the manifest carries it, so that a ledger that was
            not written any more can be.
        run: the run that commits it.

    Returns:
        The manifest as it is in the store: the first one, if it was there already.

    Raises:
        StoreError: nothing was committed; the pointer still names the checkpoint before.
        StoreConflict: another run moved the pointer in between.
    """
    pointer = store.get(pointer_key(model))
    files = files_in(folder)
    if not files:
        raise StoreError(f"The checkpoint folder {folder} is empty: nothing to commit.")
    checkpoint = _put_files(
        store,
        Checkpoint(
            model=model,
            step=step,
            parent=step - 1 if step else None,
            config=config,
            run=run,
            files=files,
            record=record,
        ),
        folder,
    )
    point_at(store, model, step, pointer)
    return checkpoint


def point_at(store: Store, model: str, step: int, over: Blob | None) -> None:
    """Have the pointer, which was `over` when it was read, name a step.

    Raises:
        StoreConflict: another run moved it in between.
    """
    data, version = json.dumps({"step": step}).encode(), over.version if over else None
    store.put_if(pointer_key(model), data, version)


def mend_pointer(store: Store, model: str, step: int) -> None:
    """Have the pointer name a step where it does not: a commit was cut off just before it.

    Raises:
        StoreConflict: another run moved it in between.
    """
    pointer = store.get(pointer_key(model))
    if pointer is None or json.loads(pointer.data) != {"step": step}:
        point_at(store, model, step, pointer)


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


def whole_around(
    store: Store,
    model: str,
    at: int,
    warn: Callable[[str], None] = _log.warning,
    passed_over: Collection[int] = (),
) -> dict[int, Checkpoint]:
    """The manifests of the whole checkpoints from step `at` on, or else of the newest before it.

    Whole is one whose files are all there in their full length. Contents are not read: `restore`
    compares them. Each checkpoint that is not whole is named in a call of `warn`.

    Args:
        passed_over: steps that are known to be damaged.
    """
    sizes, found = store.sizes(f"{model}/checkpoints/"), dict[int, Checkpoint]()
    for step in sorted(set(steps_in(sizes)) - set(passed_over), reverse=True):
        try:
            found[step] = intact(store, model, step, sizes)
        except CorruptCheckpoint as error:
            warn(str(error))
        if step <= at and step in found:
            break
    return found


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


def _put_files(store: Store, checkpoint: Checkpoint, folder: Path) -> Checkpoint:
    """Upload a checkpoint's files and its manifest, unless they are there from an earlier try."""
    model, step = checkpoint.model, checkpoint.step
    key, manifest_at = checkpoint_key(model, step), manifest_key(model, step)
    if store.get(manifest_at) is not None:
        with suppress(CorruptCheckpoint):
            there = intact(store, model, step, store.sizes(key))
            if there.model_copy(update={"record": checkpoint.record}) == checkpoint:
                return there
        # An old manifest must not vouch for new files.
        store.delete(manifest_at)
    for file in checkpoint.files:
        store.upload(folder / file.path, key + file.path)
    store.put(manifest_at, _json(checkpoint))
    return checkpoint


def _fetch(store: Store, key: str, folder: Path, file: File) -> None:
    target = folder / file.path
    target.parent.mkdir(parents=True, exist_ok=True)
    for _ in range(_DOWNLOADS_MAX):
        store.download(key, target)
        if _file(folder, target) == file:
            return
    raise CorruptCheckpoint(f"{store.url}/{key} differs from its manifest.")


def files_in(folder: Path) -> tuple[File, ...]:
    """What a manifest says of the files of a folder."""
    return tuple(_file(folder, path) for path in sorted(folder.rglob("*")) if path.is_file())


def _file(folder: Path, path: Path) -> File:
    with path.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    return File(path=path.relative_to(folder).as_posix(), bytes=path.stat().st_size, sha256=digest)


def _json(record: Settings) -> bytes:
    return record.model_dump_json(indent=1).encode()
