"""The store of checkpoints, ledgers and results: a folder, or a bucket."""

from pathlib import Path

from precis.errors import ConfigError
from precis.store.folder import FolderStore
from precis.store.protocol import Blob, Store

__all__ = ["Blob", "FolderStore", "Store", "open_store"]


def open_store(url: str) -> Store:
    """Return the store at a folder path, `file://…` or `s3://bucket/prefix`, without connecting. A
    ConfigError says that the scheme is unknown, or the bucket's name is missing."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme == "file":
        try:
            return FolderStore(Path(rest if separator else url))
        except RuntimeError as error:
            raise ConfigError(
                f"Store {url!r} lies in the home of a user who is not there.",
                "Write ~/… for your own, or the whole path.",
            ) from error
    if scheme != "s3":
        raise ConfigError(
            f"Store {url!r}: no store speaks {scheme}://.",
            "Give a folder's path or s3://bucket/prefix.",
        )
    bucket, _, prefix = rest.partition("/")
    if not bucket:
        raise ConfigError(f"Store {url!r} names no bucket: write s3://bucket/prefix.")
    from precis.store.s3 import S3Store  # boto3 takes a third of a second; folders do without

    return S3Store(bucket, prefix.strip("/"))
