"""What S3 fails with, as sentences that name the thing and what to do, and never a key."""

import pytest
from botocore.exceptions import (
    ClientError,
    EndpointConnectionError,
    FlexibleChecksumError,
    NoCredentialsError,
    ParamValidationError,
    ReadTimeoutError,
)
from s3transfer.exceptions import CancelledError, RetriesExceededError

from precis.environment import S3Environment
from precis.errors import ConfigError, StoreConflict, StoreError, StoreRefused
from precis.store.s3_client import client_for
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
        (ParamValidationError(report="Invalid bucket name"), "can't be a bucket's name"),
        (NoCredentialsError(), "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
    ],
)
def test_a_refusal_says_what_to_correct(error: Exception, advice: str) -> None:
    found = explain(error, "write s3://bucket/key")
    assert isinstance(found, StoreRefused)
    assert str(found).startswith("Can't write s3://bucket/key: ")
    assert advice in str(found)
    assert _KEY not in str(found)


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("AWS_ENDPOINT_URL", "localhost:9000", "Invalid endpoint: localhost:9000. Correct"),
        ("AWS_REGION", "us_east", "supported format. Correct"),
        ("AWS_ACCESS_KEY_ID", _KEY, "missing: aws_secret_access_key. Correct AWS_ACCESS_KEY_ID"),
        ("AWS_PROFILE", "nobody", r"profile \(nobody\) could not be found. Correct"),
    ],
)
def test_settings_that_no_client_takes_are_named(
    variable: str, value: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    client_for.cache_clear()  # a profile is none of the settings, which another test may have used
    with pytest.raises(ConfigError, match=said):
        client_for(S3Environment())


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
