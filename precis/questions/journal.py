"""The journal of paid replies, line by line on disk: nothing of it is asked for again."""

import json
import logging
import os
from pathlib import Path
from typing import Any

from precis.errors import DocumentsError

logger = logging.getLogger(__name__)


class PaymentJournal:
    """Records by key, in a JSONL file that is only ever added to.

    A record is on the disk before `put` returns. A line that was cut short is passed over.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._records: dict[str, Any] = {}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a+b") as file:
                file.seek(0)
                content = file.read()
                if content and not content.endswith(b"\n"):
                    file.write(b"\n")
        except OSError as error:
            raise _unusable(path, error) from error
        for line in content.splitlines():
            try:
                entry = json.loads(line)
                self._records[entry["key"]] = entry["record"]
            except (ValueError, LookupError, TypeError):
                logger.warning("A line of %s was cut short, and is left out.", self.path)

    def get(self, key: str) -> Any:
        """Return the newest record of a key, or None."""
        return self._records.get(key)

    def put(self, key: str, record: Any) -> None:
        """Add a record."""
        line = json.dumps({"key": key, "record": record}, ensure_ascii=False)
        try:
            with self.path.open("ab") as file:
                file.write(f"{line}\n".encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise _unusable(self.path, error) from error
        self._records[key] = record


def _unusable(path: Path, error: OSError) -> DocumentsError:
    return DocumentsError(
        f"What was paid for can't be kept in {path} ({error.strerror}): choose another --out."
    )
