"""A file of JSON objects, one a line, that a user has written."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from precis.errors import ConfigError
from precis.record import read_json_lines

T = TypeVar("T")


def read_json_file(
    file: str, holds: str, read: Callable[[int, dict[str, Any]], T], remedy: str
) -> list[T]:
    """Return what `read` makes of the objects of a JSONL file; see `read_json_lines`.

    Raises:
        ConfigError: the file can't be read, is empty, or has an invalid line, whose number is
            named; `remedy` says what to write.
    """
    try:
        text = Path(os.path.expanduser(file)).read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is not text in UTF-8"
        raise ConfigError(f"The {holds} in {file} can't be read: {reason}.", remedy) from error
    try:
        found = list(read_json_lines(text.split("\n"), read))
    except ValueError as error:
        raise ConfigError(f"{file}, {error}", remedy) from error
    if not found:
        raise ConfigError(f"{file} holds no {holds}.", remedy)
    return found
