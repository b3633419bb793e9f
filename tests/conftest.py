"""What all tests share."""

from contextlib import ExitStack

import pytest
from hypothesis import HealthCheck, settings

from tests.support.guard import guarded

# How long an example takes on a machine that others use too says nothing about the code.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


def pytest_configure(config: pytest.Config) -> None:
    """Nothing that the tests start outlives them; the workers of xdist belong to the run."""
    if not hasattr(config, "workerinput"):
        run = ExitStack()
        run.enter_context(guarded())
        config.add_cleanup(run.close)
