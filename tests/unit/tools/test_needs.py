"""Tests that need what is not there are left out with a reason; where all are to run, they fail."""

import pytest

from tests.services import needs


def test_what_is_missing_is_named_and_fails_where_all_is_to_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(needs.COMPLETE, raising=False)
    with pytest.raises(pytest.skip.Exception, match="the Debian package dash is not installed"):
        needs.need("dash", "sh", "no-such-program")
    monkeypatch.setenv(needs.COMPLETE, "1")
    assert needs.need("dash", "sh").endswith("/sh")
    with pytest.raises(pytest.fail.Exception, match="dash is not installed"):
        needs.need("dash", "no-such-program")
