"""Many files of a store at a time.

Only for reading: a run writes through `Store`, with its conditions and checksums.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

from precis.errors import StoreError
from precis.store.protocol import Store

if TYPE_CHECKING:
    from s3fs import S3FileSystem

_S3 = "s3://"
REQUESTS_AT_ONCE = 16
"""Objects to read, or to write, at the same time: each waits for the store."""


def read_files(store: Store, keys: Iterable[str]) -> dict[str, bytes]:
    """Return the contents of these keys, fetched concurrently; a StoreError says that one of them
    can't be read."""

    def read(key: str) -> tuple[str, bytes]:
        blob = store.get(key)
        if blob is None:
            raise StoreError(f"Can't read {store.url}/{key}: it is not there.")
        return key, blob.data

    with ThreadPoolExecutor(REQUESTS_AT_ONCE) as threads:
        return dict(threads.map(read, keys))


@contextmanager
def files_of(store: Store) -> Iterator[tuple["S3FileSystem | None", str]]:
    """Yield the file system of a store, which is s3fs for a bucket and None for this machine's own,
    and the store's root there; a failure within the block becomes a StoreError."""
    if not store.url.startswith(_S3):
        try:
            yield None, store.url
        except OSError as error:
            where = error.filename or store.url
            raise StoreError(f"Can't read {where}: {error.strerror or error}.") from error
        return
    # boto3 and s3fs take half a second; folders do without.
    from precis.store.s3 import S3Store
    from precis.store.s3_errors import Failure, explain

    assert isinstance(store, S3Store)
    settings = store.settings
    try:
        from s3fs import S3FileSystem

        key_id, key, token = settings.in_clear()
        yield (
            S3FileSystem(
                key=key_id,
                secret=key,
                token=token,
                endpoint_url=settings.aws_endpoint_url,
                client_kwargs={"region_name": settings.aws_region},
                config_kwargs={
                    "read_timeout": settings.timeout_s,
                    "s3": {"addressing_style": settings.addressing},
                },
                use_listings_cache=False,
            ),
            store.url.removeprefix(_S3),
        )
    except (*Failure, OSError) as error:
        # s3fs turns the server's answers into errors of the operating system.
        answer = error.__cause__ if isinstance(error.__cause__, Failure) else error
        if isinstance(answer, FileNotFoundError):
            raise StoreError(f"Can't read {_S3}{answer}: it is not there.") from error
        raise explain(answer, f"read from {store.url}") from error
