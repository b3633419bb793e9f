"""Where checkpoints, ledgers and results are kept.

A key is a relative path with forward slashes. A write is atomic: a reader sees the old
content or the new one, also after SIGKILL.
"""

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from precis.errors import ConfigError, StoreConflict, StoreError


@dataclass(frozen=True)
class Blob:
    """A small object and the version that it was read at."""

    data: bytes
    version: str


class Store(Protocol):
    """What a run needs of a store. Every method raises StoreError."""

    @property
    def url(self) -> str:
        """Where the store is, in the form that `open_store` takes."""

    def get(self, key: str) -> Blob | None:
        """Read a small object; None if there is none."""

    def put(self, key: str, data: bytes) -> str:
        """Write a small object and return its version."""

    def put_if(self, key: str, data: bytes, version: str | None) -> str:
        """Write only over this version, or, for None, only where there is nothing.

        Raises:
            StoreConflict: the object is at another version.
        """

    def upload(self, path: Path, key: str) -> None:
        """Copy a local file into the store."""

    def download(self, key: str, path: Path) -> None:
        """Copy a file of the store to a local path, whose folder exists."""

    def keys(self, prefix: str) -> list[str]:
        """All keys that begin with `prefix`, sorted."""

    def delete(self, prefix: str) -> None:
        """Delete every key that begins with `prefix`."""


def open_store(url: str) -> Store:
    """The store at a URL or folder path.

    Raises:
        ConfigError: the scheme is not served.
    """
    scheme, separator, rest = url.partition("://")
    if separator and scheme != "file":
        raise ConfigError(f"Store {url!r}: no store speaks {scheme}://. Give a folder's path.")
    return FolderStore(Path(rest if separator else url))


class FolderStore:
    """A store in a local folder."""

    def __init__(self, root: Path) -> None:
        self.root = root.expanduser().resolve()

    @property
    def url(self) -> str:
        return str(self.root)

    def get(self, key: str) -> Blob | None:
        try:
            data = self._path(key).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"Can't read {self._path(key)}: {error.strerror}.") from error
        return Blob(data, _version(data))

    def put(self, key: str, data: bytes) -> str:
        with self._replacing(key) as temporary:
            temporary.write_bytes(data)
        return _version(data)

    def put_if(self, key: str, data: bytes, version: str | None) -> str:
        with self._locked(key):
            present = self.get(key)
            if (present.version if present else None) != version:
                raise StoreConflict(f"{self._path(key)} was written by somebody else in between.")
            return self.put(key, data)

    def upload(self, path: Path, key: str) -> None:
        with self._replacing(key) as temporary:
            shutil.copyfile(path, temporary)

    def download(self, key: str, path: Path) -> None:
        try:
            shutil.copyfile(self._path(key), path)
        except OSError as error:
            raise StoreError(f"Can't read {self._path(key)}: {error.strerror}.") from error

    def keys(self, prefix: str) -> list[str]:
        folder = self._path(prefix.rpartition("/")[0])
        found = (
            path.relative_to(self.root).as_posix()
            for path in folder.rglob("*")
            if path.is_file() and not path.name.startswith(".")
        )
        return sorted(key for key in found if key.startswith(prefix))

    def delete(self, prefix: str) -> None:
        for key in self.keys(prefix):
            self._path(key).unlink(missing_ok=True)
        emptied = self._path(prefix)
        if emptied.is_dir():
            shutil.rmtree(emptied, ignore_errors=True)

    def _path(self, key: str) -> Path:
        path = (self.root / key).resolve()
        if not path.is_relative_to(self.root):
            raise StoreError(f"The key {key!r} leads out of the store {self.root}.")
        return path

    @contextmanager
    def _replacing(self, key: str) -> Iterator[Path]:
        """A temporary file that takes the key's place, whole and on disk, when the block ends."""
        path = self._path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=path.parent)
            os.close(handle)
            temporary = Path(name)
            try:
                yield temporary
                with temporary.open("rb") as written:
                    os.fsync(written.fileno())
                temporary.replace(path)
            finally:
                temporary.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(
                f"Can't write {path}: {error.strerror}. Free some space or choose another store."
            ) from error

    @contextmanager
    def _locked(self, key: str) -> Iterator[None]:
        """Keep other processes of this machine out; the kernel frees the lock of a dead one."""
        path = self._path(key)
        path.parent.mkdir(parents=True, exist_ok=True)
        with (path.parent / f".{path.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _version(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
