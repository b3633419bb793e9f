"""A checkpoint's objects in the store: its manifest, the pointer to the newest, and their keys.

    m/checkpoints/0007/manifest.json          what makes checkpoint 7 whole
    m/checkpoints/0007/9f86d081884c7d65/…     its files, in a folder of the attempt that wrote them
    m/latest.json                             the pointer: which checkpoint is the newest

Each attempt at a commit has its own folder, so that none can alter the files of another one's
manifest.

A manifest comes from a bucket that others may be able to write to. It is validated here, in the
record, before anything is fetched or written by it.
"""

import re
from collections.abc import Iterable
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from precis.errors import StoreError
from precis.record import Matching, Name, Record, Sha256, Step, json_digest
from precis.records.ledger import StepRecord
from precis.store.keys import fault_of

_FILES_MAX = 10_000
_BYTES_MAX = 2**40
"""The most bytes of a checkpoint's files: several times a large model with its optimizer's
state."""
_MANIFEST = re.compile(r"[^/]+/checkpoints/([^/]+)/manifest\.json")
_STEP = re.compile(r"[0-9]{4,7}")


def _plain(path: str) -> str:
    fault = fault_of(path)
    if fault:
        raise ValueError(f"{path[:200]!r} is not a path of a checkpoint's file: it {fault}")
    return path


FilePath = Annotated[str, AfterValidator(_plain)]
"""The path of a file in its checkpoint's folder; it can't lead out of it."""


class File(Record):
    """A file of a checkpoint."""

    path: FilePath
    bytes: int = Field(ge=0, le=_BYTES_MAX)
    sha256: Sha256


class Checkpoint(Record):
    """A checkpoint's manifest."""

    model: Name
    step: Step
    parent: Step | None
    config: str
    run: str = ""
    """The run that committed it."""
    attempt: Annotated[str, Matching(r"^[0-9a-f]{16}$", "has 16 hexadecimal digits")]
    """The folder of the files."""
    files: tuple[File, ...] = Field(min_length=1, max_length=_FILES_MAX)
    record: StepRecord | None = None
    """The ledger's record, written or not yet, of the step that made it; None for the first."""

    @model_validator(mode="after")
    def _files_fit_a_folder(self) -> Self:
        if sum(file.bytes for file in self.files) > _BYTES_MAX:
            raise ValueError(f"the files have more than {_BYTES_MAX} bytes together")
        paths = {file.path for file in self.files}
        if len(paths) < len(self.files):
            raise ValueError("two files have the same path")
        for path in paths:
            parts = path.split("/")
            if not paths.isdisjoint(["/".join(parts[:count]) for count in range(1, len(parts))]):
                raise ValueError(f"{path!r} lies below a file")
        return self

    @property
    def digest(self) -> str:
        """SHA-256 of its files' entries."""
        return files_digest(self.files)

    def key_of(self, file: File) -> str:
        return self.folder + file.path

    @property
    def folder(self) -> str:
        """The folder of the files in the store, ending in a slash."""
        return f"{checkpoint_key(self.model, self.step)}{self.attempt}/"


class LatestCheckpoint(Record):
    """The newest checkpoint of a model; the content of `latest.json`."""

    step: Step


def files_digest(files: Iterable[File]) -> str:
    """Return the SHA-256 of paths, sizes and digests of some files, in any order."""
    described = sorted((file.path, file.bytes, file.sha256) for file in files)
    return json_digest(described)


def checkpoints_key(model: str) -> str:
    """Return the folder of all checkpoints, ending in a slash."""
    return f"{model}/checkpoints/"


def checkpoint_key(model: str, step: int) -> str:
    """Return the folder of one checkpoint, ending in a slash."""
    return f"{checkpoints_key(model)}{step:04d}/"


def pointer_key(model: str) -> str:
    """Return the key of the pointer to the newest checkpoint."""
    return f"{model}/latest.json"


def manifest_key(model: str, step: int) -> str:
    return f"{checkpoint_key(model, step)}manifest.json"


def steps_in(keys: Iterable[str]) -> list[int]:
    """Return the steps whose manifests are among a store's keys, ascending. Raises StoreError for a
    manifest in a folder that is not a step's."""
    steps = []
    for key in keys:
        found = _MANIFEST.fullmatch(key)
        if found is None:
            continue
        if not is_step(found[1]):
            raise StoreError(
                f"{key!r} lies in a folder that is not a step's: checkpoints have folders such as "
                "'0007'. Move it out of the store's checkpoints, or give it its name back."
            )
        steps.append(int(found[1]))
    return sorted(steps)


def is_step(name: str) -> bool:
    return _STEP.fullmatch(name) is not None and f"{int(name):04d}" == name
