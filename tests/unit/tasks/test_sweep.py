"""A sweep, and the runs of its trials."""

import asyncio
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from prefect import State
from prefect.client.schemas.objects import FlowRun
from prefect.exceptions import TerminationSignal
from prefect.states import Completed, Crashed, Running

import flows.sweep
import tasks.states
import tasks.sweep
from precis.errors import StoreError
from precis.sweep.trials import SweepConfig


async def test_a_trial_whose_machine_has_slept_has_not_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    states: list[State[Any]] = [Running(), Crashed(), Running(), Completed()]

    async def read(_: object) -> FlowRun:
        state = states.pop(0)
        return FlowRun(flow_id=uuid4(), state=state, state_type=state.type)

    client = SimpleNamespace(read_flow_run=read)
    monkeypatch.setattr(tasks.sweep, "get_client", lambda: nullcontext(client))
    monkeypatch.setattr(tasks.sweep, "_POLL_S", 0)
    monkeypatch.setattr(tasks.sweep, "_SLEPT_S", 0)
    ended = await tasks.sweep._wait_for_end(FlowRun(flow_id=uuid4()))
    assert ended.state is not None and ended.state.is_completed()


@pytest.mark.parametrize("raised", [StoreError("Its ledger can't be read."), TerminationSignal(15)])
async def test_a_signal_ends_a_sweep_at_once_and_a_result_that_cant_be_read_after_all_trials(
    raised: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[str] = []

    async def run_trial(_: object, trial: str) -> None:
        if trial == "damaged":
            raise raised
        for _ in range(100):
            await asyncio.sleep(0)
        ended.append(trial)

    async def adopt_secrets() -> None: ...

    async def prepare_trials(_: object) -> list[str]:
        return ["damaged", "whole"]

    async def cancelling() -> bool:
        return True

    for replaced in (run_trial, adopt_secrets, prepare_trials):
        monkeypatch.setattr(flows.sweep, replaced.__name__, replaced)
    monkeypatch.setattr(tasks.states, "_is_being_cancelled", cancelling)
    state: Any = await flows.sweep.sweep.fn(config=SweepConfig(store="s", settings=({"steps": 1},)))
    if isinstance(raised, StoreError):
        assert state.message == "Its ledger can't be read." and ended == ["whole"]
    else:
        assert state.is_cancelled() and not ended
