"""The state of a run that stopped: its name says why, its message what to do."""

from types import SimpleNamespace
from typing import Any

import pytest
from prefect import State
from prefect.exceptions import FlowPauseTimeout
from prefect.logging import disable_run_logger

import tasks.training
from precis.config import TrainConfig
from precis.errors import (
    BudgetReached,
    ConfigError,
    JudgeError,
    JudgeUnavailable,
    PrecisError,
    TrainerLost,
)
from tasks.states import failed, says_why_it_stops
from tasks.training import wait_out_judge


@pytest.mark.parametrize("kind", [ConfigError, JudgeError, TrainerLost])
def test_other_errors_are_plain_failures_with_their_sentence(kind: type[PrecisError]) -> None:
    state = failed(kind("It stopped."))
    assert (state.name, state.message) == ("Failed", "It stopped.")


async def test_a_judge_that_nobody_resumes_for_is_named_as_what_the_run_failed_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def pause(timeout: int) -> None:
        raise FlowPauseTimeout("Flow run was paused and never resumed.")

    async def ask() -> None:
        raise JudgeUnavailable("The judge does not answer.")

    monkeypatch.setattr(tasks.training, "apause_flow_run", pause)
    run: Any = SimpleNamespace(config=TrainConfig(store="s", judge_patience_s=1))
    with disable_run_logger(), pytest.raises(JudgeUnavailable, match="does not answer"):
        await wait_out_judge(run, ask)


async def test_only_errors_of_ours_become_a_state() -> None:
    @says_why_it_stops
    async def flow(error: Exception) -> object:
        raise error

    assert isinstance(await flow(BudgetReached("Spent.")), State)
    with pytest.raises(ZeroDivisionError):
        await flow(ZeroDivisionError())
