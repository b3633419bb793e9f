"""What all tests share."""

import gc
import os
import ssl
from collections.abc import Generator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest

from tests.support.guard import guarded
from tests.support.watchdog import watched


def pytest_collect_file(file_path: Path) -> None:
    """The tests with services have no examples, and are spared hypothesis: a second for each
    process."""
    if "services" not in file_path.parts:
        have_patience_with_examples()


@cache
def have_patience_with_examples() -> None:
    """How long one takes on a machine that others use too says nothing about the code."""
    from hypothesis import HealthCheck, settings

    slow = [HealthCheck.too_slow]
    settings.register_profile("patient", deadline=None, suppress_health_check=slow)
    settings.load_profile("patient")


gc.disable()  # until all is imported: see `pytest_collection_finish`

# Each HTTP client makes a context of its own, and reads all authorities for it: 26 ms of a core.
_FOR_ALL = pytest.MonkeyPatch()
_FOR_ALL.setattr(ssl, "create_default_context", cache(ssl.create_default_context))
# Nobody takes the power away, but for tests/security/test_power_loss.py.
_FOR_ALL.setattr(os, "fsync", lambda _: None)


def pytest_configure(config: pytest.Config) -> None:
    """Nothing that the tests start outlives them; the workers of xdist belong to the run."""
    if not hasattr(config, "workerinput"):
        run = ExitStack()
        run.enter_context(guarded())
        config.add_cleanup(run.close)


def pytest_collection_finish() -> None:
    """What was imported stays: no collection of garbage looks through it, half a second each. And
    the others, rarer than by default, take a third of the time."""
    gc.freeze()
    gc.set_threshold(7000, 10, 10)
    gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    with watched(item):
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    with watched(item):
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    with watched(item):
        return (yield)
