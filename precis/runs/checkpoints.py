"""Checkpoints in a store: files, then the manifest, then the pointer.

The manifest is written last of a checkpoint's files, so a checkpoint with a manifest is whole;
one without does not exist. `latest.json` then names the newest one (`precis.records.manifests`).

If a process dies in between, the checkpoint before is intact: readers trust manifests, and skip and
name files without one.

A process that has lost its lease without knowing it can do no harm either. It uploads to a folder
of its own; and before it writes manifest or pointer over the version that it has read, it checks
that it still holds the lease. A process that has taken the lease over reads and writes after that,
so one of the two finds out. A commit deletes nothing.
"""

import hashlib
import logging
import secrets
import shutil
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import ValidationError

from precis.errors import CorruptCheckpoint, StoreError
from precis.processes.kill_points import reached
from precis.record import first_problem
from precis.records.ledger import StepRecord
from precis.records.manifests import (
    Checkpoint,
    File,
    LatestCheckpoint,
    checkpoint_key,
    checkpoints_key,
    manifest_key,
    pointer_key,
    steps_in,
)
from precis.runs.lease import check_lease
from precis.store import Blob, Store
from precis.store.durable import move

_log = logging.getLogger(__name__)
_DOWNLOADS_MAX = 2
"""Downloads of a file that differs from its manifest: the network may have altered it."""
_STEPS_SHOWN = 10


def commit(
    store: Store,
    model: str,
    step: int,
    folder: Path,
    config: str,
    record: StepRecord | None = None,
    run: str = "",
    lease: str = "",
) -> Checkpoint:
    """Make the checkpoint in `folder` part of the store and the latest of its model.

    A repeat has no further effect, and returns the stored manifest.

    Args:
        config: digest of the run's settings.
        record: of the step that made it; the manifest holds it in case the ledger is lost.
        lease: id of the lease that the run holds; empty if no other run can write the model.

    Raises:
        StoreError: nothing was committed; the pointer still names the checkpoint before.
        LeaseLost: another run has taken the model over.
        StoreConflict: another run has committed the step, or moved the pointer, in between.
    """
    files = files_in(folder)
    if not files:
        raise StoreError(f"The checkpoint folder {folder} is empty: nothing to commit.")
    # Read before anything is uploaded: if another run moves one of them from here on, our
    # conditional write of it is refused.
    pointer = store.get(pointer_key(model))
    before = store.get(manifest_key(model, step))
    checkpoint = Checkpoint(
        model=model,
        step=step,
        parent=step - 1 if step else None,
        config=config,
        run=run,
        attempt=secrets.token_hex(8),
        files=files,
        record=record,
    )
    there = _same_in(store, checkpoint)
    if there is None:
        for count, file in enumerate(files):
            reached(f"{count} files uploaded", step)
            store.upload(folder / file.path, checkpoint.key_of(file))
        reached("all files uploaded", step)
    # Asked again after the upload, which may take longer than a lease.
    check_lease(store, model, lease)
    if there is None:
        # With its manifest the checkpoint exists: all of its files are there by now. The pointer
        # comes last, so that it never names a checkpoint that does not exist.
        version = before.version if before else None
        data = checkpoint.model_dump_json(indent=1).encode()
        store.put_if(manifest_key(model, step), data, version)
        reached("manifest written", step)
    _point_at(store, model, step, pointer)
    reached("pointer moved", step)
    return there or checkpoint


def repair_pointer(store: Store, model: str, step: int, lease: str = "") -> None:
    """Have the pointer name a step where it does not: a commit was cut off, or it is damaged.
    Raises LeaseLost or StoreConflict where another run has taken over, or moved it."""
    blob = store.get(pointer_key(model))
    if named_step(blob) != step:
        check_lease(store, model, lease)
        _point_at(store, model, step, blob)


def named_step(pointer: Blob | None) -> int | None:
    """Return the step that a pointer names; None where it is lost or damaged."""
    try:
        return LatestCheckpoint.model_validate_json(pointer.data).step if pointer else None
    except ValidationError:
        return None


def manifest(store: Store, model: str, step: int) -> Checkpoint | None:
    """Return a committed checkpoint's manifest; None if it was never completed. A CorruptCheckpoint
    says that the manifest can't be understood, or is another checkpoint's."""
    key = manifest_key(model, step)
    blob = store.get(key)
    if blob is None:
        return None
    try:
        checkpoint = Checkpoint.model_validate_json(blob.data)
    except ValidationError as error:
        raise CorruptCheckpoint(f"{store.url}/{key} is damaged: {first_problem(error)}.") from error
    if (checkpoint.model, checkpoint.step) != (model, step):
        raise CorruptCheckpoint(
            f"{store.url}/{key} is the manifest of checkpoint {checkpoint.step} of "
            f"{checkpoint.model!r}."
        )
    return checkpoint


def committed_steps(store: Store, model: str) -> list[int]:
    """Return the steps of all checkpoints with a manifest, ascending."""
    return steps_in(store.keys(checkpoints_key(model)))


def describe_steps(steps: Sequence[int], wanted: int) -> str:
    """Return the steps for a message; of many, those nearest to the wanted one."""
    nearest = sorted(steps, key=lambda step: abs(step - wanted))[:_STEPS_SHOWN]
    shown = ", ".join(map(str, sorted(nearest))) or "none"
    more = len(steps) - _STEPS_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown


def complete_around(
    store: Store,
    model: str,
    at: int,
    passed_over: Collection[int] = (),
    digests: Mapping[int, str] | None = None,
) -> dict[int, Checkpoint]:
    """Return the manifests of the whole checkpoints from step `at` on, or else of the newest before
    it, without those known to be damaged (`passed_over`).

    A checkpoint is whole if all its files have their full length; `restore` compares contents. Each
    other one is named in a warning.
    """
    sizes = store.sizes(checkpoints_key(model))
    found = dict[int, Checkpoint]()
    expected = digests or {}
    for step in sorted(set(steps_in(sizes)) - set(passed_over), reverse=True):
        try:
            found[step] = complete_manifest(store, model, step, sizes, expected.get(step, ""))
        except CorruptCheckpoint as error:
            _log.warning("%s", error)
        # The steps run from the newest down: older ones are not needed to continue from `at`.
        if step <= at and step in found:
            break
    return found


def complete_manifest(
    store: Store, model: str, step: int, sizes: Mapping[str, int] | None = None, digest: str = ""
) -> Checkpoint:
    """Return a checkpoint's manifest, compared with the sizes of the store's keys; without `sizes`,
    its own are listed.

    A CorruptCheckpoint says that it was never completed, that a file is missing or has another
    size, or that its digest is not the ledger's, where that is given.
    """
    if sizes is None:
        sizes = store.sizes(checkpoint_key(model, step))
    checkpoint = manifest(store, model, step)
    if checkpoint is None:
        key = checkpoint_key(model, step)
        raise CorruptCheckpoint(f"{store.url}/{key} has no manifest: it was never completed.")
    if digest and checkpoint.digest != digest:
        raise CorruptCheckpoint(
            f"{store.url}/{manifest_key(model, step)} was replaced after the ledger of {model!r} "
            "was written: it names other files."
        )
    for file in checkpoint.files:
        key = checkpoint.key_of(file)
        size = sizes.get(key)
        if size != file.bytes:
            found = "is missing" if size is None else f"has {size} bytes"
            raise CorruptCheckpoint(
                f"{store.url}/{key} {found}; its manifest says {file.bytes} bytes."
            )
    return checkpoint


def restore(store: Store, model: str, step: int, into: Path, digest: str = "") -> Checkpoint:
    """Bring a checkpoint into the folder `into`, which is replaced in one move once verified.
    Raises CorruptCheckpoint as `complete_manifest` does, and where a file's content differs."""
    checkpoint = complete_manifest(store, model, step, digest=digest)
    incoming = into.with_name(f".{into.name}.incoming")
    shutil.rmtree(incoming, ignore_errors=True)
    try:
        for file in checkpoint.files:
            _fetch(store, checkpoint.key_of(file), incoming, file)
        shutil.rmtree(into, ignore_errors=True)
        move(incoming, into)
    finally:
        shutil.rmtree(incoming, ignore_errors=True)
    return checkpoint


def verify(store: Store, checkpoint: Checkpoint) -> None:
    """Read all files of a checkpoint and compare them with its manifest; a CorruptCheckpoint says
    that a file differs."""
    for file in checkpoint.files:
        with TemporaryDirectory() as temporary:
            _fetch(store, checkpoint.key_of(file), Path(temporary), file)


def _same_in(store: Store, checkpoint: Checkpoint) -> Checkpoint | None:
    """Return the manifest that an earlier attempt has written of the same files, if all of those
    exist."""
    try:
        there = complete_manifest(store, checkpoint.model, checkpoint.step)
    except CorruptCheckpoint:
        return None
    may_differ = {"record": checkpoint.record, "attempt": checkpoint.attempt}
    return there if there.model_copy(update=may_differ) == checkpoint else None


def _point_at(store: Store, model: str, step: int, over: Blob | None) -> None:
    """Write a step into the pointer, over the version `over` that was read."""
    data = LatestCheckpoint(step=step).model_dump_json().encode()
    store.put_if(pointer_key(model), data, over.version if over else None)


def _fetch(store: Store, key: str, folder: Path, file: File) -> None:
    target = folder / file.path
    target.parent.mkdir(parents=True, exist_ok=True)
    for _ in range(_DOWNLOADS_MAX):
        store.download(key, target)
        if _file(folder, target) == file:
            return
    raise CorruptCheckpoint(f"{store.url}/{key} differs from its manifest.")


def files_in(folder: Path) -> tuple[File, ...]:
    """Return a manifest's entries for the files of a folder."""
    return tuple(_file(folder, path) for path in sorted(folder.rglob("*")) if path.is_file())


def _file(folder: Path, path: Path) -> File:
    with path.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    name = path.relative_to(folder).as_posix()
    size = path.stat().st_size
    try:
        return File(path=name, bytes=size, sha256=digest)
    except ValidationError as error:
        raise StoreError(
            f"{path} can't be part of a checkpoint: {first_problem(error)}."
        ) from error
