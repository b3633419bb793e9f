"""The methods that a run needs of a store.

A key is a relative path with forward slashes that stays below the store (`precis.store.keys`);
any other is refused. A write is atomic: a reader sees the old content or the new one, also after
SIGKILL.
"""

import secrets
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol

from precis.errors import StoreConflict, StoreError, StoreRefused
from precis.store.keys import check_key

SMALL_BYTES_MAX = 256 * 1024 * 1024
"""The most that `get` reads into memory: three times a ledger of 100,000 steps."""


@dataclass(frozen=True)
class Blob:
    """A small object, its version, and the time of its last write by the store's clock."""

    data: bytes
    version: str
    written: datetime = field(compare=False)


class Store(Protocol):
    """The methods that a run needs of a store. Every method raises StoreError."""

    @property
    def url(self) -> str:
        """The address of the store, in the form that `open_store` takes."""

    def check(self) -> None:
        """Write, read and delete a small object, and expect a conditional write to be refused. A
        StoreRefused says that the store loses data or ignores the condition, or that the key, the
        bucket or a permission is wrong."""
        key = f"preflight-{secrets.token_hex(8)}"
        data = b"written by preflight"
        version = self.put_if(key, data, None)
        try:
            found = self.get(key)
            if found is None or (found.data, found.version) != (data, version):
                raise StoreRefused(
                    f"The store {self.url} lost what was written to it a moment ago."
                )
            self.put_if(key, b"written over", None)
        except StoreConflict:
            return
        finally:
            self.delete(key)
        raise StoreRefused(
            f"The store {self.url} ignores conditional writes (If-None-Match), so two runs of one "
            "model could spoil each other.",
            "Choose a store that honours them.",
        )

    def get(self, key: str) -> Blob | None:
        """Read a small object, up to SMALL_BYTES_MAX; None if there is none."""

    def put(self, key: str, data: bytes) -> str:
        """Write a small object and return its version."""

    def put_if(self, key: str, data: bytes, version: str | None) -> str:
        """Write only over this version, or, for None, only where there is nothing; a StoreConflict
        says that the object is at another version."""

    def upload(self, path: Path, key: str) -> None:
        """Copy a local file into the store."""

    def download(self, key: str, path: Path) -> None:
        """Copy a file of the store to a local path, whose folder exists."""

    def keys(self, prefix: str) -> list[str]:
        """Return all keys that begin with `prefix`, sorted."""
        return sorted(self.sizes(prefix))

    def folders(self) -> list[str]:
        """Return the parts of its keys before the first slash, sorted, without listing all keys."""

    def sizes(self, prefix: str) -> dict[str, int]:
        """Return the bytes of every key that begins with `prefix`; no content is read."""

    def delete(self, prefix: str) -> None:
        """Delete every key that begins with `prefix`."""
        self._delete(self.keys(prefix))

    def delete_keys(self, keys: Sequence[str]) -> None:
        """Delete these keys, as many as possible at a time; missing ones are no error."""
        self._delete([check_key(key, self.url) for key in keys])

    def _delete(self, keys: Sequence[str]) -> None:
        """Delete keys, and foreign objects that could not be keys."""

    def clean(self) -> None:
        """Remove what a server keeps of killed writers after a day, if it does."""
        return None


def refuse_too_large(size: int, where: str) -> None:
    """Refuse to read a large object as a small one; a StoreError says that it has more than
    SMALL_BYTES_MAX."""
    if size > SMALL_BYTES_MAX:
        raise StoreError(
            f"{where} has {size} bytes, and no record that Précis writes has more than "
            f"{SMALL_BYTES_MAX}: somebody else has written it.",
            "Remove it, or restore it.",
        )


class OwnObject:
    """An object that one process replaces again and again, and nobody else meanwhile.

    A write that failed, or whose caller was cancelled, may have been carried out all the same. The
    next write, of the same content or another, then replaces it as its own.

    Args:
        version: at which this process has read the object; None if there was none.

    Attributes:
        version: at which it has last read or written it.
    """

    def __init__(self, store: Store, key: str, version: str | None) -> None:
        self._store = store
        self._key = key
        self.version = version
        self._unanswered: list[bytes] = []
        self._writing = threading.Lock()

    def write(self, data: bytes) -> str:
        """Replace the object and return its version. Raises StoreConflict if somebody else has
        written it."""
        with self._writing:
            self._unanswered.append(data)
            try:
                self.version = self._store.put_if(self._key, data, self.version)
            except StoreConflict:
                present = self._store.get(self._key)
                if present is None or present.data not in self._unanswered:
                    raise
                self.version = self._store.put_if(self._key, data, present.version)
            self._unanswered.clear()
            return self.version
