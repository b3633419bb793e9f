"""What a task is tried again for."""

from typing import Any

import pytest
from prefect.client.schemas.objects import State, StateType

from precis.errors import (
    ConfigError,
    DocumentsError,
    JudgeRejected,
    JudgeUnavailable,
    PrecisError,
    StoreError,
    StoreRefused,
    UnusableRun,
)
from tasks.policy import worth_retrying
from tasks.preflight import make_checks


@pytest.mark.parametrize(
    ("error", "again", "in_preflight"),
    [
        (StoreError("The store is out."), True, True),
        # A preflight has asked it for minutes.
        (JudgeUnavailable("The judge is out."), True, False),
        (JudgeRejected("The key is wrong."), False, False),
        (UnusableRun("There is no such run."), False, False),
        (StoreRefused("It may not be written."), False, False),
        (ConfigError("It can't work."), False, False),
        (DocumentsError("It can't be read."), False, False),
    ],
)
def test_only_what_may_pass_is_tried_again(
    error: PrecisError, again: bool, in_preflight: bool
) -> None:
    state: Any = State(type=StateType.FAILED, data=error)
    nothing: Any = None
    assert worth_retrying(nothing, nothing, state) is again
    assert make_checks.retry_condition_fn is not None
    assert make_checks.retry_condition_fn(nothing, nothing, state) is in_preflight
