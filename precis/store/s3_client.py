"""boto3's client and its transfers, with deadlines, one layer of retries and bounded memory."""

import threading
from functools import lru_cache
from typing import Any

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import BotoCoreError

from precis.environment import S3Environment
from precis.errors import ConfigError

_MIB = 1024 * 1024
_IN_FLIGHT = 8
_CONNECT_TIMEOUT_S = 5
_DOWNLOADS_MAX = 5

# An upload reads its parts from disk as it sends them. A download holds 4 MiB for each of its 8
# connections, and as much again while it waits for the disk: larger pieces cost memory, smaller
# ones CPU. A piece that breaks off is fetched again here, since botocore does not retry once an
# answer has begun.
UPLOAD = TransferConfig(
    multipart_threshold=16 * _MIB,
    multipart_chunksize=16 * _MIB,
    max_concurrency=_IN_FLIGHT,
    preferred_transfer_client="classic",
)
DOWNLOAD = TransferConfig(
    multipart_threshold=32 * _MIB,
    multipart_chunksize=32 * _MIB,
    max_concurrency=_IN_FLIGHT,
    io_chunksize=4 * _MIB,
    max_io_queue=_IN_FLIGHT,
    num_download_attempts=_DOWNLOADS_MAX,
    preferred_transfer_client="classic",
)


@lru_cache(maxsize=8)
def client_for(settings: S3Environment) -> Any:
    """Return the client for these settings, which threads may share. Raises ConfigError if boto3
    can't use them, or the user's own settings of AWS."""
    wanted = "when_required" if settings.checksum == "none" else "when_supported"
    config = Config(
        connect_timeout=_CONNECT_TIMEOUT_S,
        read_timeout=settings.timeout_s,
        retries={"mode": "standard", "total_max_attempts": settings.tries_max},
        max_pool_connections=2 * _IN_FLIGHT,
        request_checksum_calculation=wanted,
        response_checksum_validation=wanted,
        s3={"addressing_style": settings.addressing},
    )
    key_id, key, token = settings.in_clear()
    try:
        return boto3.session.Session().client(
            "s3",
            aws_access_key_id=key_id,
            aws_secret_access_key=key,
            aws_session_token=token,
            region_name=settings.aws_region,
            endpoint_url=settings.aws_endpoint_url,
            config=config,
        )
    except (BotoCoreError, ValueError) as error:
        why = str(error).rstrip(".")
        raise ConfigError(
            f"S3 can't be used with these settings: {why}.",
            "Correct AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL, AWS_REGION, "
            "AWS_PROFILE or the file of that profile.",
        ) from error


def finish(transfer: Any, patience_s: float) -> None:
    """Wait for an upload or download, for at most `patience_s`."""
    timer = threading.Timer(patience_s, transfer.cancel)
    timer.daemon = True
    timer.start()
    try:
        transfer.result()
    finally:
        timer.cancel()
