"""What a task is tried again for."""

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
    ("error", "again"),
    [
        (StoreError("The store is out."), True),
        (JudgeUnavailable("The judge is out."), True),
        (JudgeRejected("The key is wrong."), False),
        (UnusableRun("There is no such run."), False),
        (StoreRefused("It may not be written."), False),
        (ConfigError("It can't work."), False),
        (DocumentsError("It can't be read."), False),
    ],
)
def test_only_what_may_pass_is_tried_again(error: PrecisError, again: bool) -> None:
    state = State(type=StateType.FAILED, data=error)
    assert worth_retrying(None, None, state) is again  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("error", "again"),
    [(JudgeUnavailable("The judge is out."), False), (StoreError("The store is out."), True)],
)
def test_a_preflight_does_not_ask_a_judge_again_that_was_asked_for_minutes(
    error: PrecisError, again: bool
) -> None:
    state = State(type=StateType.FAILED, data=error)
    assert make_checks.retry_condition_fn is not None
    assert make_checks.retry_condition_fn(None, None, state) is again  # type: ignore[arg-type]
