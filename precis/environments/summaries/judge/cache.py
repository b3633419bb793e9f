"""A cache of the judge's replies on disk.

One SQLite file in WAL mode, shared by processes. A full or broken cache misses, which is logged
once.
"""

import logging
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

CACHE_FILE = "judge-cache.sqlite"
"""The cache's name in Précis' home folder."""
BYTES_MAX = 256 * 2**20
"""The default bound of the file: replies to some 100,000 summaries."""

_BUSY_S = 0.5
"""How long another process's write is awaited. The event loop is blocked meanwhile: where a stopped
process holds the file, each reply waits so long and is not kept."""
_FRESH_S = 3600
_EVICTED_AT_ONCE = 64

# auto_vacuum only takes effect before the first table, and lets `prune` free pages without the
# exclusive lock of a full VACUUM. With WAL, `synchronous = NORMAL` survives a killed process: only
# a power cut can lose the last replies, never the file.
_SCHEMA = """
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
CREATE TABLE IF NOT EXISTS replies (
    key TEXT PRIMARY KEY, reply TEXT NOT NULL, used_at INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS replies_by_use ON replies (used_at);
"""
_OLDEST = "DELETE FROM replies WHERE key IN (SELECT key FROM replies ORDER BY used_at LIMIT ?)"

logger = logging.getLogger(__name__)


class ReplyCache:
    """Replies by key, evicted by least recent use at the file's bound."""

    def __init__(
        self, path: Path, bytes_max: int = BYTES_MAX, clock: Callable[[], float] = time.time
    ) -> None:
        self._path = path
        self._bytes_max = bytes_max
        self._clock = clock
        self._warned = False
        self._connection: sqlite3.Connection | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # Transactions are explicit, and one event loop at a time uses the connection, though
            # not always from the thread that created it.
            connection = sqlite3.connect(
                path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
            )
            try:
                connection.executescript(_SCHEMA)
            except sqlite3.Error:
                connection.close()
                raise
            self._connection = connection
        except (sqlite3.Error, OSError) as error:
            self._warn(error)

    def get(self, key: str) -> str | None:
        """Return the reply kept under a key, or None. Never raises for a broken cache."""
        row = None
        if self._connection is not None:
            try:
                row = self._connection.execute(
                    "SELECT reply, used_at FROM replies WHERE key = ?", (key,)
                ).fetchone()
            except sqlite3.Error as error:
                self._warn(error)
        if row is None:
            return None
        reply = str(row[0])
        if self._clock() - row[1] > _FRESH_S:
            self.put(key, reply)  # updates its time of use
        return reply

    def put(self, key: str, reply: str) -> None:
        """Keep a reply. Never raises for a broken cache."""
        connection = self._connection
        if connection is None:
            return
        row = (key, reply, int(self._clock()))
        try:
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.execute("INSERT OR REPLACE INTO replies VALUES (?, ?, ?)", row)
                # Deleting a batch at a time keeps each write short; at its bound, a cache that adds
                # one reply and drops up to a batch soon has room again.
                if _count_used_bytes(connection) > self._bytes_max:
                    _evict(connection)
        except sqlite3.Error as error:
            self._warn(error)

    def stats(self) -> tuple[int, int]:
        """Return the file's entries and bytes; raises sqlite3.Error if it can't be read."""
        connection = self._require_connection()
        (entries,) = connection.execute("SELECT count(*) FROM replies").fetchone()
        return entries, _count_used_bytes(connection)

    def prune(self, bytes_max: float) -> int:
        """Delete the replies used least recently down to a size, and shrink the file; returns how
        many were deleted, and raises sqlite3.Error where the file can't be used."""
        connection = self._require_connection()
        before = connection.total_changes
        while _count_used_bytes(connection) > bytes_max and _evict(connection):
            pass
        deleted = connection.total_changes - before
        # As a script, because `execute` would stop after the first freed page.
        connection.executescript("PRAGMA incremental_vacuum")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return deleted

    def close(self) -> None:
        """Close the file; idempotent."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _require_connection(self) -> sqlite3.Connection:
        if self._connection is None:
            raise sqlite3.OperationalError("it could not be opened")
        return self._connection

    def _warn(self, error: Exception) -> None:
        """Log once that the cache is broken: further misses have the same cause."""
        if not self._warned:
            logger.warning(
                "The judge's cache %s can't be used (%s): replies are asked for again. Delete the "
                "file if it is damaged, or free disk space.",
                self._path,
                error,
            )
        self._warned = True


def _count_used_bytes(connection: sqlite3.Connection) -> int:
    """Return the bytes of the file's used pages, for all processes, from its header."""
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    return int((pages - free) * size)


def _evict(connection: sqlite3.Connection) -> int:
    return connection.execute(_OLDEST, (_EVICTED_AT_ONCE,)).rowcount
