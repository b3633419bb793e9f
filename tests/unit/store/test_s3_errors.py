"""What S3 fails with, as sentences that name the thing and what to do, and never a key."""

import pytest
from botocore.exceptions import (
    ClientError,
    EndpointConnectionError,
    FlexibleChecksumError,
    NoCredentialsError,
    ReadTimeoutError,
)
from s3transfer.exceptions import CancelledError, RetriesExceededError

from precis.errors import StoreConflict, StoreError, StoreRefused
from precis.store.s3_errors import explain

_KEY = "AKIAVERYSECRET"


def answered(code: str) -> ClientError:
    message = f"The key {_KEY} made this fail."
    return ClientError({"Error": {"Code": code, "Message": message}}, "PutObject")


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (answered("NoSuchBucket"), "PRECIS_S3_CREATE_BUCKET"),
        (answered("InvalidAccessKeyId"), "AWS_ACCESS_KEY_ID"),
        (answered("SignatureDoesNotMatch"), "AWS_SECRET_ACCESS_KEY"),
        (answered("ExpiredToken"), "Sign in again"),
        (answered("AccessDenied"), "s3:PutObject"),
        (RetriesExceededError(answered("AccessDenied")), "s3:PutObject"),
        (answered("403"), "s3:PutObject"),
        (answered("RequestTimeTooSkewed"), "clock"),
        (answered("301"), "AWS_REGION"),
        (NoCredentialsError(), "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
    ],
)
def test_a_refusal_says_what_to_correct(error: Exception, advice: str) -> None:
    found = explain(error, "write s3://bucket/key")
    assert isinstance(found, StoreRefused)
    assert str(found).startswith("Can't write s3://bucket/key: ")
    assert advice in str(found)
    assert _KEY not in str(found)


@pytest.mark.parametrize("code", ["PreconditionFailed", "412", "ConditionalRequestConflict"])
def test_a_failed_condition_is_a_conflict(code: str) -> None:
    assert isinstance(explain(answered(code), "write s3://bucket/key"), StoreConflict)


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (answered("SlowDown"), "keeps answering SlowDown"),
        (EndpointConnectionError(endpoint_url="http://127.0.0.1:1"), "Check AWS_ENDPOINT_URL"),
        (ReadTimeoutError(endpoint_url="http://127.0.0.1:1"), "no whole answer came"),
        (FlexibleChecksumError(error_msg="differs"), "no whole answer came"),
        (CancelledError(), "too slow"),
        (FileNotFoundError(2, "No such file or directory", "/x/adapter"), "No such file.*adapter"),
    ],
)
def test_a_passing_failure_is_no_refusal(error: Exception, says: str) -> None:
    with pytest.raises(StoreError, match=says) as caught:
        raise explain(error, "read s3://bucket/key")
    assert not isinstance(caught.value, StoreRefused)
