"""The state of a run that stopped: its name says why, its message what to do."""

import pytest
from prefect import State

from precis.errors import (
    BudgetReached,
    ConfigError,
    JudgeError,
    PrecisError,
    TrainerLost,
)
from tasks.states import failed, says_why_it_stops


@pytest.mark.parametrize("kind", [ConfigError, JudgeError, TrainerLost])
def test_other_errors_are_plain_failures_with_their_sentence(kind: type[PrecisError]) -> None:
    state = failed(kind("It stopped."))
    assert (state.name, state.message) == ("Failed", "It stopped.")


async def test_only_errors_of_ours_become_a_state() -> None:
    @says_why_it_stops
    async def flow(error: Exception) -> object:
        raise error

    assert isinstance(await flow(BudgetReached("Spent.")), State)
    with pytest.raises(ZeroDivisionError):
        await flow(ZeroDivisionError())
