"""What the tests need and pip can't bring: where it is missing, they are left out and say why."""

import os
import shutil
from typing import NoReturn

import pytest

COMPLETE = "PRECIS_TEST_COMPLETE"
"""Set where all tests are to run, as in CI: what would be left out then fails."""

_PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"


def need(package: str, *programs: str) -> str:
    """The path of the first of a Debian package's programs; leave the test out without them."""
    found = [shutil.which(program, path=_PATH) for program in programs]
    if found[0] is None or None in found:
        leave_out(f"the Debian package {package} is not installed")
    return found[0]


def leave_out(reason: str) -> NoReturn:
    """Skip the test, with a reason for pytest's summary; fail it where all are to run."""
    if os.environ.get(COMPLETE):
        pytest.fail(f"{COMPLETE} is set, but {reason}.", pytrace=False)
    pytest.skip(reason)
