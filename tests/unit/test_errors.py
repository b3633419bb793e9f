"""What an error carries, also to another process."""

import pickle

import pytest

from precis.errors import (
    ConfigError,
    PrecisError,
    ProviderFailed,
    ProviderRejected,
    StoreError,
)


@pytest.mark.parametrize(
    "error",
    [
        ConfigError("What.", "Do."),
        StoreError("What."),
        ProviderRejected("What.", 401),
        ProviderFailed("rate_limited", "What.", 2.5),
    ],
)
def test_an_error_is_the_same_in_another_process(error: PrecisError) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert vars(copy) == vars(error)
    assert str(copy) == str(error)
