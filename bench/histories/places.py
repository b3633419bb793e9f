"""Where a history lies: a folder, a bucket nearby, and the same bucket far away."""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.checkpoints import server
from precis.store import FolderStore, Store
from tests.services.fault_proxy import FaultProxy
from tests.services.s3_server import new_store, through


@dataclass(frozen=True)
class Place:
    """A store that holds the history, and the environment of those who reach it there.

    Attributes:
        requests: how many it was sent so far, where they are counted.
    """

    name: str
    store: Store
    environment: Mapping[str, str] = field(default_factory=dict)
    requests: Callable[[], int] = lambda: 0


def places(write: Callable[[Store], None], trip_ms: float) -> Iterator[Place]:
    """The places, one after the other; the bucket is moto's, in a process of its own.

    Args:
        write: writes the history into a store.
        trip_ms: how much longer each request to the bucket takes that is far away.
    """
    with TemporaryDirectory() as folder:
        store = FolderStore(Path(folder))
        write(store)
        yield Place("folder", store)
    with server(None) as url:
        bucket = new_store(url)
        write(bucket)
        yield Place("bucket", bucket, _way_to(url))
        with FaultProxy(url) as far:
            far.delay_s = trip_ms / 1000
            yield Place(
                f"bucket, {trip_ms:g} ms away",
                through(far.url, bucket),
                _way_to(far.url),
                lambda: len(far.requests),
            )


def environment_of(place: Place) -> dict[str, str]:
    """What a process that looks at the history there has in its environment."""
    # Bytecode that is never kept would be compiled anew by every process.
    own = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**own, **place.environment}


def _way_to(url: str) -> dict[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": url,
    }
