"""A run in Prefect: what it fails with, what is tried again, and the lines in its log."""

import asyncio
import errno
import json
import logging
import signal
import threading
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import httpx
import pytest
from prefect import State, flow_engine
from prefect._flow_run_suspension import FlowRunSuspensionRequest
from prefect.client.schemas.objects import StateType
from prefect.concurrency import _leases
from prefect.exceptions import Abort, MissingContextError, TerminationSignal
from prefect.logging import disable_run_logger
from prefect.states import Failed, Pending, Suspended
from prefect.utilities.callables import get_call_parameters

import flows.cluster  # what the package changes of Prefect is tested here too
import tasks.policy
import tasks.states
import tasks.training
from flows.cluster import cluster_down, cluster_sweep
from precis.environments.summaries.judge import cache
from precis.errors import (
    BudgetReached,
    ConfigError,
    DocumentsError,
    JudgeError,
    JudgeRejected,
    JudgeUnavailable,
    LeaseLost,
    PrecisError,
    StoreError,
    StoreRefused,
    TrainerLost,
    UnusableRun,
)
from tasks.policy import worth_retrying
from tasks.preflight import make_checks
from tasks.states import lines_in_run_log, says_why_it_stops
from tasks.training import wait_out_judge


@pytest.mark.parametrize("state", ["PAUSED", "FAILED", "SCHEDULED", "RUNNING"])
async def test_a_run_waits_for_its_judge_until_it_is_resumed_or_retried(
    state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Retried, if the server ended the pause while the machine slept: the worker leaves that to a
    process that is alive."""

    async def show(_: str, paused: State[Any]) -> None:
        assert paused.is_paused() and paused.state_details.pause_timeout

    async def shown_as(_: str) -> StateType:
        return StateType(state)

    answers: list[Exception | None] = [JudgeUnavailable("The judge does not answer."), None]

    async def ask() -> None:
        if error := answers.pop(0):
            raise error

    monkeypatch.setattr(tasks.training, "show", show)
    monkeypatch.setattr(tasks.training, "shown_as", shown_as)
    run: Any = SimpleNamespace(config=SimpleNamespace(judge_patience_s=1e-9))
    goes_on = state in ("SCHEDULED", "RUNNING")
    given_up = nullcontext() if goes_on else pytest.raises(JudgeUnavailable)
    with disable_run_logger(), given_up:
        await wait_out_judge(run, ask)


@pytest.mark.parametrize("state", ["CRASHED", "SCHEDULED"])
@pytest.mark.parametrize("suspended", [False, True])
async def test_a_run_of_any_flow_that_was_taken_for_dead_is_shown_as_running_again(
    state: str, suspended: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not a suspended one, which ends: its Resume would be lost."""
    looks, shown = asyncio.Semaphore(0), []

    async def shown_as(_: str) -> StateType:
        looks.release()
        return StateType(state)

    async def show(name: str, _: str) -> None:
        shown.append(name)

    monkeypatch.setattr(flows, "_LOOK_S", 0)
    monkeypatch.setattr(flows, "shown_as", shown_as)
    monkeypatch.setattr(flows, "show_running_as", show)
    asked = FlowRunSuspensionRequest()
    if suspended:
        asked.mark_requested(Suspended())
    emitted: list[str] = []
    monkeypatch.setattr(flows, "emit_event", lambda name, _, related: emitted.append(name))
    engine: Any = SimpleNamespace(
        heartbeat_seconds=None,
        flow=SimpleNamespace(isasync=True),
        flow_run=SimpleNamespace(parent_task_run_id=None),
        _build_heartbeat_event_template=lambda: ({}, []),
        _get_flow_run_suspension_request=lambda: asked,
    )
    with flow_engine._send_heartbeats(engine):
        for _ in range(2):
            await looks.acquire()
    assert bool(shown) != suspended
    # Else the automation for lost machines would show it as crashed.
    assert emitted == ["prefect.flow-run.left-suspended"] * suspended


@pytest.mark.parametrize("retried", [True, False])
async def test_a_benchmark_ends_where_its_retry_runs_elsewhere(
    retried: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would pay for the rest too. A server that is out is no retry, and a Cancel is none."""
    starts = iter([None, 2, 2])
    block = asyncio.current_task()
    assert block

    async def read(_: object) -> list[State[Any]]:
        seen = next(starts, 3)
        if seen is None:
            raise httpx.ConnectError("")
        if seen == 3 and not retried:
            block.cancel()
            return []
        return [Pending()] * seen

    client = SimpleNamespace(read_flow_run_states=read)
    monkeypatch.setattr(flows, "_LOOK_S", 0)
    monkeypatch.setattr(flows, "get_client", lambda: nullcontext(client))
    monkeypatch.setattr(flows, "flow_run", SimpleNamespace(id=str(uuid4())))
    with disable_run_logger(), pytest.raises(Abort if retried else asyncio.CancelledError):
        async with flows.only_process():
            await asyncio.Event().wait()
    assert block.cancelling() == (not retried)
    block.uncancel()


def test_a_flow_of_anothers_without_a_loop_runs_beside_ours() -> None:
    engine: Any = SimpleNamespace(
        heartbeat_seconds=None,
        flow=SimpleNamespace(isasync=False),
        _get_flow_run_suspension_request=FlowRunSuspensionRequest,
    )
    with flow_engine._send_heartbeats(engine):
        pass


async def test_a_sign_in_page_in_place_of_the_server_costs_a_run_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def page(*_: object, **__: object) -> None:
        json.loads("<html>")

    client = SimpleNamespace(read_flow_run=page, set_flow_run_state=page)
    monkeypatch.setattr(tasks.states, "get_client", lambda: nullcontext(client))
    with disable_run_logger():
        assert await tasks.states.shown_as(str(uuid4())) is None
        await tasks.states.show(str(uuid4()), Suspended())


async def test_a_run_whose_retry_has_taken_its_lease_leaves_the_state_to_that(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A laptop that wakes would end what was retried on another machine."""
    monkeypatch.setattr(tasks.states, "flow_run", SimpleNamespace(id="3f"))
    monkeypatch.setattr(tasks.states, "get_run_logger", logging.getLogger)

    @says_why_it_stops
    async def flow(holder: str) -> object:
        raise LeaseLost(f"The model 'm' was taken over by the run m ({holder}).")

    assert isinstance(await flow("4a"), State)
    with pytest.raises(Abort):
        await flow("3f")
    assert "was taken over by the run m (3f)" in caplog.text


async def test_a_run_that_lost_its_slot_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    """As each has after a pause for its judge, or after a restart of the server."""
    renewals: list[threading.Thread] = []

    def renew(*_: object) -> None:
        renewals.append(threading.current_thread())
        raise RuntimeError("410 Gone: lease not found")

    monkeypatch.setattr(_leases, "_lease_renewal_loop", renew)
    holding: Any = flow_engine.amaintain_concurrency_lease  # type: ignore[attr-defined]
    async with holding(uuid4(), 300, raise_on_lease_renewal_failure=True):
        while not renewals:
            await asyncio.sleep(0)
        await asyncio.to_thread(renewals[0].join)
        await asyncio.sleep(0)  # where Prefect would cancel it


async def test_only_errors_of_ours_and_a_full_disk_become_a_state() -> None:
    @says_why_it_stops
    async def flow(error: Exception) -> object:
        raise error

    assert isinstance(await flow(BudgetReached("Spent.")), State)
    for kind in (ConfigError, JudgeError, TrainerLost):
        state = await flow(kind("It stopped."))
        assert isinstance(state, State)
        assert (state.name, state.message) == ("Failed", "It stopped.")
    full = await flow(OSError(errno.ENOSPC, "No space left on device", "history.jsonl"))
    assert isinstance(full, State) and "disk is full (history.jsonl)" in str(full.message)
    for error in (ZeroDivisionError(), OSError(errno.EIO, "Input/output error", "history.jsonl")):
        with pytest.raises(type(error)):
            await flow(error)


async def test_a_flow_fails_with_the_message_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(_: object) -> None:
        raise ConfigError("SkyPilot is not installed.")

    monkeypatch.setattr(flows.cluster, "take_down", refuse)
    monkeypatch.setattr(flows.cluster, "sweep_machines", refuse)
    flows_of_machines: list[tuple[Any, dict[str, Any]]]
    flows_of_machines = [(cluster_down, {"model": "summarizer"}), (cluster_sweep, {})]
    for flow, given in flows_of_machines:
        state = await flow.fn(**get_call_parameters(flow.fn, (), given))
        assert isinstance(state, State) and state.message == "SkyPilot is not installed."


@pytest.mark.parametrize("cancelled", ["own", "root", "neither"])
async def test_a_run_that_a_signal_ends_is_cancelled_only_if_somebody_cancels_it(
    cancelled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = {name: str(uuid4()) for name in ("own", "root")}

    async def shown_as(run: str) -> StateType:
        return StateType.CANCELLING if run == ids.get(cancelled) else StateType.RUNNING

    @says_why_it_stops
    async def flow() -> object:
        raise TerminationSignal(signal.SIGTERM)

    monkeypatch.setattr(tasks.states, "shown_as", shown_as)
    this = SimpleNamespace(id=ids["own"], root_flow_run_id=ids["root"])
    monkeypatch.setattr(tasks.states, "flow_run", this)
    with nullcontext() if cancelled in ids else pytest.raises(TerminationSignal):
        found = await flow()
        assert isinstance(found, State) and found.is_cancelled()


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
    error: PrecisError,
    again: bool,
    in_preflight: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(tasks.policy, "get_run_logger", lambda: logging.getLogger("run"))
    state: Any = Failed(data=error)
    task: Any = None
    run: Any = SimpleNamespace(name="step 3: train m")
    assert make_checks.retry_condition_fn is not None
    assert make_checks.retry_condition_fn(task, run, state) is in_preflight
    assert len(caplog.messages) == in_preflight
    assert worth_retrying(task, run, state) is again
    said = f"step 3: train m failed, and is tried again within 30 s: {error}"
    assert caplog.messages == [said] * (again + in_preflight)
    assert not any(vars(one).get("send_to_api", True) for one in caplog.records)


@pytest.mark.parametrize("name", ["precis.llm.silence", cache.__name__])
def test_a_warning_stands_in_the_runs_log_once_and_elsewhere_only_without_a_run(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    logger = logging.getLogger(name)
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(tasks.states, "get_run_logger", lambda: logging.getLogger("run"))
    with lines_in_run_log():
        logger.warning("The judge has answered no request for %s s: 100%%.", 10)
        logger.info("All is well.")
        with lines_in_run_log():
            logger.warning("Once.")
        logger.warning("Once more.")
    logger.warning("The run has ended.")
    assert [(one.name, one.getMessage()) for one in caplog.records] == [
        ("run", "The judge has answered no request for 10 s: 100%."),
        ("run", "Once."),
        ("run", "Once more."),
        (name, "The run has ended."),
    ]
    caplog.clear()

    def none_is_at_work() -> logging.Logger:
        raise MissingContextError

    monkeypatch.setattr(tasks.states, "get_run_logger", none_is_at_work)
    with lines_in_run_log():
        logger.warning("A thread of its own says this.")
    assert caplog.messages == ["A thread of its own says this."]
