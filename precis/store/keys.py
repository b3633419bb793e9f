"""The strings that are keys of a store, and paths of a checkpoint's files.

Both become paths of a file system, here or on a rented machine, and come from buckets and trainers
that others can write to. So one rule holds for both: a relative path that stays below its root, on
every operating system.
"""

from precis.errors import StoreError

_KEY_BYTES_MAX = 1024
"""S3's own limit."""
_PART_BYTES_MAX = 255
"""A file system's own limit."""


def fault_of(path: str) -> str:
    """Return why a string is no key, as words to follow it; empty for a key."""
    parts = path.split("/")
    if path.startswith("/") or ".." in parts:
        return "leads out of the store"
    if "" in parts or "." in parts:
        return "has an empty part, or a part '.'"
    if "\\" in path or not path.isprintable():
        return "has a backslash or an invisible character"
    longest = max(len(part.encode()) for part in parts)
    if longest > _PART_BYTES_MAX or len(path.encode()) > _KEY_BYTES_MAX:
        return "is too long"
    return ""


def check_key(key: str, url: str) -> str:
    """Return the key; a StoreError says that it is invalid."""
    fault = fault_of(key)
    if fault:
        raise StoreError(f"{key[:200]!r} can't be a key of {url}: it {fault}.")
    return key


def check_prefix(prefix: str, url: str) -> str:
    """Return the prefix of keys: empty, a folder that ends in a slash, or the beginning of a key. A
    StoreError says that no key begins with it."""
    if prefix:
        check_key(prefix.removesuffix("/"), url)
    return prefix
