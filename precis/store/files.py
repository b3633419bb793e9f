"""Many files of a store at a time."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from precis.errors import StoreError
from precis.store.protocol import Store

READ_AT_ONCE = 16
"""Objects to read at the same time: each waits for the store."""


def read_files(store: Store, keys: Iterable[str]) -> dict[str, bytes]:
    """Return the contents of these keys, fetched concurrently; a StoreError says that one of them
    can't be read."""

    def read(key: str) -> tuple[str, bytes]:
        blob = store.get(key)
        if blob is None:
            raise StoreError(f"Can't read {store.url}/{key}: it is not there.")
        return key, blob.data

    with ThreadPoolExecutor(READ_AT_ONCE) as threads:
        return dict(threads.map(read, keys))
