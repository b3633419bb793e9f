"""An S3 server for the tests: moto's, over real HTTP.

All of moto's servers in one process have the same buckets, and keep them to the end of the process:
whoever stores something names a bucket that nobody else has.
"""

import logging
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from moto.server import ThreadedMotoServer
from pydantic import SecretStr

from precis.environment import S3Environment
from precis.store.s3 import S3Store


@contextmanager
def s3_server() -> Iterator[str]:
    """The URL of a server that runs while the block lasts."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
    finally:
        server.stop()


def settings_for(url: str, **changes: Any) -> S3Environment:
    """How to reach the server; it may be asked to create buckets."""
    return S3Environment(
        aws_access_key_id=SecretStr("test"),
        aws_secret_access_key=SecretStr("test"),
        aws_region="us-east-1",
        aws_endpoint_url=url,
        create_bucket=True,
    ).model_copy(update=changes)


def variables_for(url: str, secret: str = "test") -> dict[str, str]:
    """The same for a program, as variables of its environment."""
    return {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": url,
        "PRECIS_S3_CREATE_BUCKET": "1",
    }


def new_store(url: str, **changes: Any) -> S3Store:
    """A store in a bucket of its own."""
    store = S3Store(f"precis-{secrets.token_hex(4)}", "runs/a", settings_for(url, **changes))
    store.check()
    return store


def through(proxy: str, store: S3Store, **changes: Any) -> S3Store:
    """The same store, reached at another address by a client that tries less often."""
    return S3Store(store.bucket, store.prefix, settings_for(proxy, **{"tries_max": 4} | changes))
