"""The failures of S3 and of the connection to it, as sentences without keys."""

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    HTTPClientError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
)
from botocore.exceptions import ConnectionError as NotConnected
from s3transfer.exceptions import CancelledError, RetriesExceededError

from precis.errors import StoreConflict, StoreError, StoreRefused

Failure = (BotoCoreError, ClientError, HTTPClientError, RetriesExceededError, CancelledError)
"""The errors that boto3 and its transfers raise."""

_ABSENT = {"NoSuchKey", "404", "NotFound", "NoSuchUpload"}
_CONFLICT = {"PreconditionFailed", "ConditionalRequestConflict", "412", "409"}

_REFUSED = {
    "NoSuchBucket": "there is no such bucket. Create it, set PRECIS_S3_CREATE_BUCKET=1, or "
    "correct the store's URL",
    "InvalidBucketName": "that can't be a bucket's name. Correct the store's URL",
    "InvalidAccessKeyId": "the server does not know the key in AWS_ACCESS_KEY_ID. Correct it, or "
    "AWS_ENDPOINT_URL if the key is another provider's",
    "SignatureDoesNotMatch": "AWS_SECRET_ACCESS_KEY does not belong to AWS_ACCESS_KEY_ID. Copy "
    "both again",
    "ExpiredToken": "the session in AWS_SESSION_TOKEN has ended. Sign in again",
    "AccessDenied": "the key is not permitted to. Give it s3:ListBucket on the bucket and "
    "s3:GetObject, s3:PutObject, s3:DeleteObject and s3:AbortMultipartUpload on its objects",
    "RequestTimeTooSkewed": "this machine's clock is wrong. Set it",
    "PermanentRedirect": "the bucket is in another region. Set AWS_REGION to it",
    "BucketAlreadyExists": "the bucket's name is taken by somebody else. Choose another",
}
_SAME = {
    "403": "AccessDenied",
    "Forbidden": "AccessDenied",
    "AllAccessDisabled": "AccessDenied",
    "InvalidToken": "ExpiredToken",
    "301": "PermanentRedirect",
    "AuthorizationHeaderMalformed": "PermanentRedirect",
    "IllegalLocationConstraintException": "PermanentRedirect",
}


def is_absent(error: ClientError) -> bool:
    """Return whether the server says that the object or the bucket does not exist."""
    return code_of(error) in _ABSENT


def code_of(error: ClientError) -> str:
    """Return S3's name for the error; the HTTP status where the answer had no body."""
    return str(error.response.get("Error", {}).get("Code", ""))


def explain(error: Exception, doing: str) -> StoreError:
    """Return a failure as a StoreError; `doing` is a phrase such as `read s3://bucket/key`."""
    if isinstance(error, RetriesExceededError):
        error = error.last_exception
    if isinstance(error, ClientError) and (code := code_of(error)):
        if code in _CONFLICT:
            return StoreConflict(f"Can't {doing}: it was written by somebody else in between.")
        reason = _REFUSED.get(_SAME.get(code, code))
        if reason:
            return StoreRefused(f"Can't {doing}: {reason}.")
        if code in _ABSENT:
            return StoreError(f"Can't {doing}: it is not there.")
        return StoreError(
            f"Can't {doing}: the server keeps answering {code}.",
            "Try again when the server has recovered; a run continues from its last commit.",
        )
    if isinstance(error, (NoCredentialsError, PartialCredentialsError)):
        return StoreRefused(
            f"Can't {doing}: no key is set.", "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
        )
    if isinstance(error, ParamValidationError):
        return StoreRefused(f"Can't {doing}: {_REFUSED['InvalidBucketName']}.")
    if isinstance(error, CancelledError):
        return StoreError(f"Can't {doing}: the transfer was too slow and was given up.")
    if isinstance(error, OSError) and not isinstance(error, NotConnected) and error.strerror:
        return StoreError(f"Can't {doing}: {error.strerror} ({error.filename or 'local file'}).")
    return StoreError(
        f"Can't {doing}: no whole answer of S3 came ({type(error).__name__}).",
        "Check AWS_ENDPOINT_URL, AWS_REGION and the network, and try again; a run continues from "
        "its last commit.",
    )
