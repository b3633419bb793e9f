"""What tests of services stand on: programs that may be missing, and tests that may hang."""

import threading

import pytest

from tests.services import needs
from tests.support.watchdog import interrupted_after


def test_what_hangs_without_a_limit_is_interrupted() -> None:
    with (
        pytest.raises(pytest.fail.Exception, match="The end of a test did not come"),
        interrupted_after(0.01, "a test", look_s=0.05),
    ):
        threading.Event().wait()


def test_what_is_missing_is_named_or_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(needs.COMPLETE, raising=False)
    with pytest.raises(pytest.skip.Exception, match="the Debian package dash is not installed"):
        needs.need("dash", "sh", "no-such-program")
    monkeypatch.setenv(needs.COMPLETE, "1")
    assert needs.need("dash", "sh").endswith("/sh")
    with pytest.raises(pytest.fail.Exception, match="dash is not installed"):
        needs.need("dash", "no-such-program")
