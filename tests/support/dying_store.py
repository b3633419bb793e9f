"""A store whose user is killed in the middle of what it does, and one that loses an answer."""

import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path

from precis.errors import StoreError
from precis.store import Blob, FolderStore


class Killed(Exception):
    """The process is gone."""


class MortalStore(FolderStore):
    """A folder whose user is killed before its n-th write or deletion of what is a run's own;
    the lease is not counted."""

    def __init__(self, root: Path, writes: int) -> None:
        super().__init__(root)
        self.left = writes

    def put(self, key: str, data: bytes) -> str:
        self._write(key)
        return super().put(key, data)

    def delete(self, prefix: str) -> None:
        self._write(prefix)
        FolderStore(self.root).delete(prefix)

    def delete_keys(self, keys: Sequence[str]) -> None:
        for key in keys:
            self._write(key)
            super().delete_keys([key])

    def upload(self, path: Path, key: str) -> None:
        self._write(key)
        super().upload(path, key)

    def get(self, key: str) -> Blob | None:
        self._live()
        return super().get(key)

    def _write(self, key: str) -> None:
        self._live()
        self.left -= not key.endswith("lease.json")
        self._live()

    def _live(self) -> None:
        if self.left < 0:
            raise Killed


async def kill_at_each_write(
    store: FolderStore, folder: Path, work: Callable[[FolderStore], Awaitable[object]]
) -> AsyncIterator[FolderStore]:
    """What some work leaves of a store when it is killed before each of its writes in turn, and at
    last when it comes to its end."""
    writes = 0
    was_killed = True
    while was_killed:
        copy = FolderStore(shutil.copytree(store.root, folder / str(writes)))
        try:
            await work(MortalStore(copy.root, writes))
            was_killed = False
        except Killed:
            copy.delete("m/lease.json")  # its process would be dead
        yield copy
        writes += 1


class SilentStore(FolderStore):
    """A folder that carries out a conditional write, and loses its answer, while it is silent."""

    silent = False

    def put_if(self, key: str, data: bytes, version: str | None) -> str:
        written = super().put_if(key, data, version)
        if self.silent:
            raise StoreError("No whole answer came.")
        return written
