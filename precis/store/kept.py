"""Records that were paid for, kept by their content in the store.

A key is the digest of all that decides a record, so what is found under it is what would be asked
for. Each record is written before its successor is asked for: a run that is killed pays again for
nothing that it had an answer to. They lie at the store's root, for all models of it.
"""

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from precis.store import Store

T = TypeVar("T")

_PREFIX = "kept/"
_THREADS = 16
"""Of objects that are read or written at the same time: one takes a store's latency, not a CPU."""


class KeptRecords:
    """The records of one store. What can't be read as a record counts as not there."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: set[str] = set()
        self._read: dict[str, bytes] = {}
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="kept")

    async def open(self) -> None:
        """See what is there: one listing, instead of a look for each that is missing. A StoreError
        says that the store can't be read."""
        self._known = set(await self._in_thread(self._store.keys, _PREFIX))

    async def get(self, name: str, decode: Callable[[Any], T]) -> T | None:
        """Return a record, or None; `decode` raises ValueError, TypeError or KeyError for what is
        none."""
        key = f"{_PREFIX}{name}.json"
        if key not in self._known:
            return None
        if key not in self._read:
            blob = await self._in_thread(self._store.get, key)
            self._read[key] = blob.data if blob else b""
        try:
            return decode(json.loads(self._read[key]))
        except (ValueError, TypeError, KeyError):
            return None

    async def put(self, name: str, record: Any) -> None:
        """Keep a record, which is JSON; a StoreError says that it can't be written."""
        key = f"{_PREFIX}{name}.json"
        data = json.dumps(record, ensure_ascii=False).encode()
        await self._in_thread(self._store.put, key, data)
        self._known.add(key)
        self._read[key] = data

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown(wait=False)

    async def _in_thread(self, call: Callable[..., T], *arguments: Any) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, call, *arguments)
