"""What S3 fails with, as sentences that name the thing and what to do, and never a key."""

from functools import partial

import pytest
from botocore.exceptions import (
    ClientError,
    EndpointConnectionError,
    FlexibleChecksumError,
    NoCredentialsError,
    ParamValidationError,
    ReadTimeoutError,
)
from pydantic import SecretStr
from s3transfer.exceptions import CancelledError, RetriesExceededError
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from precis.environment import S3Environment
from precis.errors import ConfigError, StoreConflict, StoreError, StoreRefused
from precis.store.s3 import S3Store
from precis.store.s3_client import client_for
from precis.store.s3_errors import explain
from tests.support.local_server import served

_KEY = "AKIAVERYSECRET"


def answered(code: str) -> ClientError:
    message = f"The key {_KEY} made this fail."
    return ClientError({"Error": {"Code": code, "Message": message}}, "PutObject")


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (answered("NoSuchBucket"), StoreRefused, "PRECIS_S3_CREATE_BUCKET"),
        (answered("InvalidAccessKeyId"), StoreRefused, "AWS_ACCESS_KEY_ID"),
        (answered("SignatureDoesNotMatch"), StoreRefused, "AWS_SECRET_ACCESS_KEY"),
        (answered("ExpiredToken"), StoreRefused, "Sign in again"),
        (answered("AccessDenied"), StoreRefused, "s3:PutObject"),
        (RetriesExceededError(answered("AccessDenied")), StoreRefused, "s3:PutObject"),
        (answered("403"), StoreRefused, "s3:PutObject"),
        (answered("RequestTimeTooSkewed"), StoreRefused, "clock"),
        (answered("301"), StoreRefused, "AWS_REGION"),
        (ParamValidationError(report="Invalid name"), StoreRefused, "can't be a bucket's name"),
        (NoCredentialsError(), StoreRefused, "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
        (answered("PreconditionFailed"), StoreConflict, ""),
        (answered("412"), StoreConflict, ""),
        (answered("ConditionalRequestConflict"), StoreConflict, ""),
        (answered("SlowDown"), StoreError, "keeps answering SlowDown"),
        (answered(""), StoreError, "no whole answer of S3 came"),
        (EndpointConnectionError(endpoint_url="http://a:1"), StoreError, "AWS_ENDPOINT_URL, AWS"),
        (ReadTimeoutError(endpoint_url="http://a:1"), StoreError, "no whole answer of S3 came"),
        (FlexibleChecksumError(error_msg="differs"), StoreError, "no whole answer of S3 came"),
        (CancelledError(), StoreError, "too slow"),
        (FileNotFoundError(2, "It is gone", "/x/adapter"), StoreError, "It is gone (/x/adapter)"),
    ],
)
def test_a_failure_says_what_to_do(error: Exception, kind: type[StoreError], said: str) -> None:
    found = explain(error, "write s3://bucket/key")
    assert type(found) is kind
    assert said in str(found)
    assert _KEY not in str(found)


@pytest.mark.parametrize("status", [200, 301, 302])
def test_a_page_in_place_of_s3_s_answer_is_named(status: int) -> None:
    """As of a hotel's network that wants a sign-in, or of a proxy that redirects to https."""

    async def page(scope: Scope, receive: Receive, send: Send) -> None:
        await Request(scope, receive).body()
        answer = Response("<html>Sign in</html>", status, {"location": "/sign-in"})
        await answer(scope, receive, send)

    key = SecretStr(_KEY)
    with served(page) as url:
        settings = S3Environment(
            aws_access_key_id=key, aws_secret_access_key=key, aws_endpoint_url=url, tries_max=1
        )
        store = S3Store("bucket", settings=settings)
        for ask in (store.get, partial(store.put, data=b"{}")):
            with pytest.raises(StoreError, match="no whole answer of S3 came"):
                ask("a/ledger.json")


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
