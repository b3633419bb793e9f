"""A store in a bucket: AWS, or any server that speaks S3 and honours conditional writes."""

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from boto3.s3.transfer import create_transfer_manager
from botocore.exceptions import BotoCoreError, ClientError

from precis.environment import S3Environment
from precis.errors import StoreConflict, StoreError, StoreRefused
from precis.store.keys import check_key, check_prefix
from precis.store.protocol import Blob, Store, refuse_too_large
from precis.store.s3_client import DOWNLOAD, UPLOAD, client_for, finish
from precis.store.s3_errors import Failure, explain, is_absent

_ABANDONED_AFTER = timedelta(days=1)
_KEYS_A_DELETION = 1000
_SLOWEST_BYTES_PER_S = 64 * 1024
_PAUSES_S = (0.05, 0.2, 0.8)
"""Seconds between tries of a conditional write that the server refused to all writers."""

_WRITE = "precis-write"
"""The metadata that names a conditional write, so that we recognize our own."""

_READS_MAX = 3
"""Of a small object whose body breaks off: botocore retries a request until its answer begins, and
boto3's transfers fetch the rest of a file again."""


class S3Store(Store):
    """A store in `s3://bucket/prefix`; the version of an object is its ETag. The default settings
    are the environment's."""

    def __init__(
        self, bucket: str, prefix: str = "", settings: S3Environment | None = None
    ) -> None:
        self.bucket = bucket
        self.prefix = prefix
        self.settings = settings or S3Environment()
        self._s3 = client_for(self.settings)

    @property
    def url(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")

    def check(self) -> None:
        if self.settings.create_bucket:
            region = self._s3.meta.region_name
            where = {}
            if not self.settings.aws_endpoint_url and region not in ("us-east-1", "aws-global"):
                where = {"CreateBucketConfiguration": {"LocationConstraint": region}}
            with self._explaining(f"create the bucket {self.bucket!r}"):
                try:
                    self._s3.head_bucket(Bucket=self.bucket)
                except ClientError as error:
                    # A HEAD's answer has no body: the first write will give any other reason.
                    if is_absent(error):
                        self._s3.create_bucket(Bucket=self.bucket, **where)
        super().check()

    def get(self, key: str) -> Blob | None:
        with self._explaining(f"read {self._at(key)}"):
            for _ in range(_READS_MAX - 1):
                answer = self._ask(self._s3.get_object, key)
                with suppress(BotoCoreError):
                    return self._read(answer, key)
            return self._read(self._ask(self._s3.get_object, key), key)

    def put(self, key: str, data: bytes, **options: Any) -> str:
        with self._explaining(f"write {self._at(key)}"):
            try:
                answer = self._s3.put_object(
                    Bucket=self.bucket,
                    Key=self._key(key),
                    Body=data,
                    **self._write_options(),
                    **options,
                )
            except ClientError as error:
                if "IfMatch" in options and is_absent(error):
                    raise StoreConflict(f"{self._at(key)} was deleted in between.") from error
                raise
            return str(answer["ETag"])

    def put_if(self, key: str, data: bytes, version: str | None) -> str:
        write = secrets.token_hex(8)
        tries = 0
        while True:
            condition = {"IfNoneMatch": "*"}
            if version is not None:
                # The standard has the ETag in its quotes; Ceph (16) accepts it only without.
                condition = {"IfMatch": version if tries % 2 == 0 else version.strip('"')}
            try:
                return self.put(key, data, Metadata={_WRITE: write}, **condition)
            except StoreRefused:
                raise
            except StoreError as error:
                # The write may have succeeded and only its answer was lost: then the retry was
                # refused because of our own object.
                present = self._head(key) or {}
                if present.get("Metadata", {}).get(_WRITE) == write:
                    return str(present["ETag"])
                unchanged = present.get("ETag") == version
                if not (unchanged and isinstance(error, StoreConflict)):
                    raise
                if tries == len(_PAUSES_S):  # nobody else has written it
                    raise StoreError(
                        f"Can't write {self._at(key)}: the server refuses every write of it.",
                        "Start the run again when the server has recovered.",
                    ) from error
            # S3 answers 409 to two concurrent writers, which botocore does not retry.
            time.sleep(_PAUSES_S[tries])
            tries += 1

    def upload(self, path: Path, key: str) -> None:
        with self._explaining(f"upload {path} to {self._at(key)}"):
            sent = path.stat().st_size
            with create_transfer_manager(self._s3, UPLOAD) as manager:
                arguments = (str(path), self.bucket, self._key(key), self._write_options())
                finish(manager.upload(*arguments), self._patience_s(sent))
        arrived = self._size(key)
        if arrived != sent:
            raise StoreError(
                f"{self._at(key)} arrived with {arrived} bytes instead of {sent}: try again."
            )

    def download(self, key: str, path: Path) -> None:
        patience_s = self._patience_s(self._size(key))
        with (
            self._explaining(f"download {self._at(key)} to {path}"),
            create_transfer_manager(self._s3, DOWNLOAD) as manager,
        ):
            finish(manager.download(self.bucket, self._key(key), str(path)), patience_s)

    def folders(self) -> list[str]:
        skipped = len(self._below(""))
        found = []
        with self._explaining(f"list {self._at('')}"):
            for page in self._pages("list_objects_v2", "", Delimiter="/"):
                for entry in page.get("CommonPrefixes", ()):
                    found.append(entry["Prefix"][skipped:].rstrip("/"))
        return sorted(found)

    def sizes(self, prefix: str) -> dict[str, int]:
        check_prefix(prefix, self.url)
        skipped = len(self._below(""))
        sizes = {}
        with self._explaining(f"list {self._at(prefix)}"):
            for page in self._pages("list_objects_v2", prefix):
                for entry in page.get("Contents", ()):
                    sizes[entry["Key"][skipped:]] = entry["Size"]
        return sizes

    def _delete(self, keys: Sequence[str]) -> None:
        for start in range(0, len(keys), _KEYS_A_DELETION):
            batch = [{"Key": self._below(key)} for key in keys[start : start + _KEYS_A_DELETION]]
            others = f" and {len(batch) - 1:,} others" if len(batch) > 1 else ""
            with self._explaining(f"delete {self._at(keys[start])}{others}"):
                answer = self._s3.delete_objects(
                    Bucket=self.bucket, Delete={"Objects": batch, "Quiet": True}
                )
            errors = answer.get("Errors")
            if errors:
                first = errors[0]
                raise explain(
                    ClientError({"Error": first}, "DeleteObjects"),
                    f"delete s3://{self.bucket}/{first.get('Key', '')}",
                )

    def clean(self) -> None:
        """Abort unfinished multipart uploads, which cost storage."""
        before = datetime.now(UTC) - _ABANDONED_AFTER
        with self._explaining(f"clean {self.url}"):
            for page in self._pages("list_multipart_uploads", ""):
                for upload in page.get("Uploads", ()):
                    if upload["Initiated"] < before:
                        self._s3.abort_multipart_upload(
                            Bucket=self.bucket, Key=upload["Key"], UploadId=upload["UploadId"]
                        )

    def _pages(self, operation: str, prefix: str, **options: str) -> Iterator[dict[str, Any]]:
        pages: Iterator[dict[str, Any]] = self._s3.get_paginator(operation).paginate(
            Bucket=self.bucket, Prefix=self._below(prefix), **options
        )
        return pages

    def _ask(self, ask: Callable[..., dict[str, Any]], key: str) -> dict[str, Any] | None:
        """Return the answer to a request for an object; None where there is none."""
        try:
            return ask(Bucket=self.bucket, Key=self._key(key))
        except ClientError as error:
            if is_absent(error):
                return None
            raise

    def _read(self, answer: dict[str, Any] | None, key: str) -> Blob | None:
        if answer is None:
            return None
        # As a context manager it would yield the raw body, which checks no checksum.
        with closing(answer["Body"]):
            refuse_too_large(answer["ContentLength"], self._at(key))
            written = answer["LastModified"].astimezone(UTC)
            return Blob(answer["Body"].read(), answer["ETag"], written)

    def _head(self, key: str) -> dict[str, Any] | None:
        """Return an object's metadata, with its version; None where there is no object."""
        with self._explaining(f"look at {self._at(key)}"):
            return self._ask(self._s3.head_object, key)

    def _size(self, key: str) -> int:
        found = self._head(key)
        if found is None:
            raise StoreError(f"Can't look at {self._at(key)}: it is not there.")
        return int(found["ContentLength"])

    def _patience_s(self, size: int) -> float:
        """Return the limit of a whole transfer, which a timeout for each read does not give."""
        return 4 * self.settings.timeout_s + size / _SLOWEST_BYTES_PER_S

    def _write_options(self) -> dict[str, str]:
        options: dict[str, str] = {}
        if self.settings.checksum != "none":
            options["ChecksumAlgorithm"] = self.settings.checksum
        if self.settings.sse:
            options["ServerSideEncryption"] = self.settings.sse
        return options

    def _key(self, key: str) -> str:
        return self._below(check_key(key, self.url))

    def _below(self, key: str) -> str:
        return f"{self.prefix}/{key}" if self.prefix else key

    def _at(self, key: str) -> str:
        return f"s3://{self.bucket}/{self._below(key)}"

    @contextmanager
    def _explaining(self, doing: str) -> Iterator[None]:
        try:
            yield
        # The last two: another server's page, and its redirect, which boto3 follows without end.
        except (*Failure, OSError, KeyError, RecursionError) as error:
            raise explain(error, doing) from error
