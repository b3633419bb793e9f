"""A store in a local folder."""

import errno
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from precis.errors import LockHeld, StoreConflict, StoreError, StoreRefused
from precis.processes.file_lock import PATIENCE_S, file_lock
from precis.store.durable import make_folder, move
from precis.store.keys import check_key, check_prefix
from precis.store.protocol import Blob, Store, refuse_too_large

_OWN = ".precis"
"""The prefix of the store's own files, which are no keys."""
_FULL = {errno.ENOSPC, errno.EDQUOT}
_REFUSED = {errno.EACCES, errno.EPERM, errno.EROFS}
_NO_FOLDER = {errno.ENOTDIR, errno.EEXIST}


class FolderStore(Store):
    """A store in a local folder; a conditional write waits for another process's."""

    def __init__(self, root: Path) -> None:
        # `Path.resolve` raises for links that lead back to themselves, up to Python 3.12.
        self.root = Path(os.path.realpath(root.expanduser()))

    @property
    def url(self) -> str:
        return str(self.root)

    def get(self, key: str) -> Blob | None:
        path = self._path(key)
        with _explaining(path, "read"):
            try:
                found = path.stat()
                refuse_too_large(found.st_size, str(path))
                data = path.read_bytes()
            except FileNotFoundError:
                return None
        return Blob(data, _version(data), datetime.fromtimestamp(found.st_mtime, UTC))

    def put(self, key: str, data: bytes) -> str:
        with self._replacing(key) as temporary:
            temporary.write_bytes(data)
        return _version(data)

    def put_if(self, key: str, data: bytes, version: str | None) -> str:
        path = self._path(key)
        try:
            with self._writing(path), file_lock(path.parent / f"{_OWN}.lock", PATIENCE_S):
                present = self.get(key)
                if (present.version if present else None) != version:
                    raise StoreConflict(f"{path} was written by somebody else in between.")
                return self.put(key, data)
        except LockHeld as error:
            raise StoreError(f"Can't write {path}: {error.what}", error.remedy) from error

    def upload(self, path: Path, key: str) -> None:
        with self._replacing(key) as temporary:
            shutil.copyfile(path, temporary)

    def download(self, key: str, path: Path) -> None:
        try:
            shutil.copyfile(self._path(key), path)
        except OSError as error:
            raise StoreError(
                f"Can't copy {self._path(key)} to {path}: {error.strerror}."
            ) from error

    def folders(self) -> list[str]:
        with _explaining(self.root, "read"):
            if not self.root.exists():
                return []
            return sorted(path.name for path in self.root.iterdir() if path.is_dir())

    def sizes(self, prefix: str) -> dict[str, int]:
        sizes: dict[str, int] = {}
        folder = check_prefix(prefix, self.url).rpartition("/")[0]
        for path in _files_below(self._inside(folder), of_all_models=not folder):
            key = path.relative_to(self.root).as_posix()
            if key.startswith(prefix) and not path.name.startswith(_OWN):
                with suppress(FileNotFoundError):  # deleted since the listing
                    if path.is_file():
                        sizes[key] = path.stat().st_size
        return sizes

    def delete(self, prefix: str) -> None:
        super().delete(prefix)
        emptied = self._inside(prefix)
        if emptied.is_dir():
            shutil.rmtree(emptied, ignore_errors=True)

    def _delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            path = self.root / key  # a link itself, and not its target
            with _explaining(path, "delete"):
                path.unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        return self._inside(check_key(key, self.url))

    def _inside(self, relative: str) -> Path:
        """Return a path below the root, symbolic links followed."""
        path = Path(os.path.realpath(self.root / relative))
        if not path.is_relative_to(self.root):
            raise StoreError(f"{relative!r} leads out of the store {self.root}.")
        return path

    @contextmanager
    def _replacing(self, key: str) -> Iterator[Path]:
        """Yield a temporary file that replaces the key, whole and on disk, when the block ends."""
        path = self._path(key)
        with self._writing(path):
            # In the same folder: a rename is atomic within a file system only.
            handle, name = tempfile.mkstemp(prefix=f"{_OWN}-", suffix=".tmp", dir=path.parent)
            os.close(handle)
            temporary = Path(name)
            try:
                yield temporary
                temporary.chmod(stat.S_IMODE(self.root.stat().st_mode) & 0o666)
                move(temporary, path)
            finally:
                temporary.unlink(missing_ok=True)

    @contextmanager
    def _writing(self, path: Path) -> Iterator[None]:
        with _explaining(path, "write"):
            make_folder(self.root)
            # A user who may read the store's root may read all of it.
            make_folder(path.parent, stat.S_IMODE(self.root.stat().st_mode))
            yield


@contextmanager
def _explaining(path: Path, verb: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        what = f"Can't {verb} {path}: {error.strerror}."
        if error.errno in _FULL:
            raise StoreError(what, "Free some space or choose another store.") from error
        if error.errno in _REFUSED:
            remedy = f"Let this user {verb} there or choose another store."
            raise StoreRefused(what, remedy) from error
        if error.errno in _NO_FOLDER:
            remedy = "A file or a broken link lies where a folder is needed: choose another store."
            raise StoreRefused(what, remedy) from error
        raise StoreError(what, "Choose another store.") from error


def _files_below(folder: Path, *, of_all_models: bool = False) -> Iterator[Path]:
    """Yield each file in a folder and in those below it, also while others delete some of them; a
    StoreError says that one can't be read. Of all models only those that this user may read."""

    def fail(error: OSError) -> None:
        is_closed = of_all_models and isinstance(error, PermissionError)
        if not is_closed and not isinstance(error, FileNotFoundError | NotADirectoryError):
            with _explaining(Path(error.filename or folder), "read"):
                raise error

    for place, _, names in os.walk(folder, onerror=fail):
        for name in names:
            yield Path(place, name)


def _version(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
