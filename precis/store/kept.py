"""Paid replies, kept in the store by what was asked.

A key is the digest of all that decides a reply, so a stored reply is the one that a request would
get. Each is written before the next request: a killed run pays for no answered request again. They
are kept at the store's root, for all its models.
"""

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from precis.store import Store
from precis.store.files import REQUESTS_AT_ONCE

T = TypeVar("T")

_PREFIX = "kept/"


class KeptRecords:
    """The records of one store. An unreadable record counts as missing."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: set[str] = set()
        self._read: dict[str, bytes] = {}
        self._threads = ThreadPoolExecutor(REQUESTS_AT_ONCE, thread_name_prefix="kept")

    async def open(self) -> None:
        """List the stored records once, so that no missing one is asked for; a StoreError says that
        they can't be listed."""
        self._known = set(await self._in_thread(self._store.keys, _PREFIX))

    async def get(self, name: str, decode: Callable[[Any], T]) -> T | None:
        """Return a record, or None; `decode` raises ValueError, TypeError or KeyError for a bad
        one. One that could not be written is written now, or a StoreError says that it still can't
        be."""
        key = f"{_PREFIX}{name}.json"
        if key not in self._known:
            if key not in self._read:
                return None
            await self._write(key)  # which has failed before
        if key not in self._read:
            blob = await self._in_thread(self._store.get, key)
            self._read[key] = blob.data if blob else b""
        try:
            return decode(json.loads(self._read[key]))
        except (ValueError, TypeError, KeyError):
            return None

    async def put(self, name: str, record: Any) -> None:
        """Keep a record, which is JSON; a StoreError says that it can't be written: then only this
        object knows it, and `get` tries again."""
        key = f"{_PREFIX}{name}.json"
        self._read[key] = json.dumps(record, ensure_ascii=False).encode()
        await self._write(key)

    async def _write(self, key: str) -> None:
        await self._in_thread(self._store.put, key, self._read[key])
        self._known.add(key)

    async def _in_thread(self, call: Callable[..., T], *arguments: Any) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, call, *arguments)
