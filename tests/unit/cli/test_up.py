"""`precis up`, its worker and its work pool, and a managed job's program, against stand-ins for the
Prefect server."""

import asyncio
import logging
import os
import signal
import subprocess
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from prefect._internal import _observation_delivery
from prefect.client.schemas.filters import WorkPoolFilter
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.exceptions import ObjectNotFound
from prefect.runner import _state_proposer, _workspace_hook_runner
from prefect.states import AwaitingRetry, Cancelling, Completed, Crashed
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route

from cli import automations, managed_run, pool, prefect_process, prefect_server, up, worker
from precis.commands.terminal import plain_console
from precis.errors import ConfigError, PrecisError
from precis.llm.loop_server import LoopServer
from precis.processes.child import free_port


def test_prefect_s_last_words_come_after_the_end_and_go_to_the_log(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    with up._output_to(log):
        handler = logging.StreamHandler()
    handler.handle(logging.makeLogRecord({"msg": "a heartbeat was lost"}))
    assert log.read_text() == "a heartbeat was lost\n"
    handler.stream.close()


@pytest.mark.parametrize("password", ["", "precis", "ana:short", ":choose-a-long-one"])
def test_sharing_a_server_needs_a_password(password: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_SERVER_API_AUTH_STRING", password)
    with pytest.raises(ConfigError, match="set PREFECT_SERVER_API_AUTH_STRING to `user:password`"):
        up.demand_password()


def test_the_command_shows_the_password(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRECIS_HOME", str(tmp_path / "my files"))
    (tmp_path / "my files" / "prefect").mkdir(parents=True)
    (tmp_path / "my files" / "prefect" / "password").write_text("precis:secret")
    command = prefect_server.PrefectServer(OWN, ours=True).show_password
    assert command and subprocess.check_output(command, shell=True, text=True) == "precis:secret"


OWN = "http://127.0.0.1:9/api"


@pytest.fixture
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    """No server is configured, and what finding one sets is taken back."""
    for variable in ("PREFECT_API_URL", "PREFECT_HOME"):
        monkeypatch.setenv(variable, "")
    monkeypatch.setattr(prefect_process, "SETTINGS", {})


@pytest.mark.usefixtures("unset")
def test_an_impossible_home_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("PRECIS_HOME", f"{tmp_path}/file/home")
    said = f"Can't make the folder {tmp_path}/file/home .* Let PRECIS_HOME name a folder that this"
    with pytest.raises(ConfigError, match=said):
        prefect_server.find_or_start()


@pytest.mark.usefixtures("unset")
@pytest.mark.parametrize(
    ("configured", "asked", "said"),
    [
        ("http://127.0.0.1:8/api", {"share": True}, "be shared. Unset that, or leave --share out"),
        ("http://127.0.0.1:8/api", {"port": 10}, "a port. Unset that, or leave --port out"),
        # Ours, which is still starting.
        ("", {"share": True}, "be shared. Stop it with `precis stop`, or leave --share out"),
    ],
)
def test_a_server_that_is_there_is_not_changed_behind_its_back(
    configured: str, asked: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", configured)
    monkeypatch.setattr(prefect_process, "address", lambda: OWN)
    monkeypatch.setattr(prefect_process, "start", lambda *_: False)
    with pytest.raises(ConfigError, match=f"only one that is started here can .*{said}"):
        prefect_server.find_or_start(**asked)


@pytest.mark.usefixtures("unset")
def test_a_server_that_was_started_and_can_t_be_used_is_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stops: list[None] = []
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    monkeypatch.setattr(prefect_process, "address", lambda: OWN)
    monkeypatch.setattr(prefect_process, "start", lambda *_: True)
    monkeypatch.setattr(prefect_server, "stop", lambda: stops.append(None))
    with pytest.raises(ConfigError, match="A proxy of this shell can't be used"):
        prefect_server.find_or_start()
    assert stops


@pytest.mark.usefixtures("unset")
@pytest.mark.parametrize("is_of_others", [False, True])
def test_a_server_at_the_address_of_our_last_is_ours_unless_others_answer_there(
    is_of_others: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lines that `precis up` prints configure ours; `prefect server start` may take the port
    that it had."""

    async def check() -> None:
        pass

    monkeypatch.setenv("PREFECT_API_URL", OWN)
    monkeypatch.setattr(prefect_process, "address", lambda: OWN)
    monkeypatch.setattr(prefect_process, "start", lambda *_: True)
    monkeypatch.setattr(prefect_server, "_is_healthy", lambda _: is_of_others)
    monkeypatch.setattr(prefect_server, "check", check)
    server = prefect_server.find_or_start()
    assert (server.ours, server.started) == (not is_of_others, not is_of_others)


PROXY = f"http://127.0.0.1:{free_port()}"
"""Nothing listens there, as at a proxy that does not reach this machine."""


@pytest.mark.usefixtures("unset")
async def test_no_proxy_is_asked_for_our_own_server(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(variable, "")
    monkeypatch.setenv("HTTP_PROXY", PROXY)
    monkeypatch.setattr(os, "environ", {**os.environ})  # what it sets is taken back
    server = LoopServer(Starlette(routes=[Route("/api/health", lambda _: Response())]))
    await server.start()
    api = f"http://127.0.0.1:{server.port}/api"
    try:
        assert await asyncio.to_thread(prefect_server._is_healthy, api)
        prefect_server._use(api)
        assert os.environ["NO_PROXY"] == "127.0.0.1,localhost"
    finally:
        await server.stop()


@pytest.mark.usefixtures("unset")
def test_another_terminal_is_told_to_ask_no_proxy_either(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def answer(*_: object) -> list[UUID]:
        return []

    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    monkeypatch.setattr(prefect_server, "check", answer)
    for name in ("ensure", "paused", "pause", "deployments"):
        monkeypatch.setattr(pool, name, answer)
    monkeypatch.setattr(automations, "active", answer)
    monkeypatch.setattr(up, "on_postgres", lambda: False)
    monkeypatch.setattr(up, "deploy", lambda: None)
    server: Any = SimpleNamespace(wait=answer, ui="", api=OWN, show_password=None, started=False)
    up._stand_up(server, plain_console(), None)
    assert "  export NO_PROXY=127.0.0.1,localhost\n" in capsys.readouterr().out


@pytest.mark.usefixtures("unset")
@pytest.mark.parametrize(
    "proxy",
    ["socks5://me:secret@127.0.0.1:1", "socks://127.0.0.1:1/", "http://me:secret/@127.0.0.1:1"],
)
def test_a_proxy_that_can_t_be_used_is_told(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second is how a desktop may write it; the third is no address."""
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(ConfigError, match="A proxy of this shell can't be used: ") as raised:
        prefect_server._use(OWN)
    assert "secret" not in str(raised.value)


@pytest.mark.usefixtures("unset")
def test_a_server_that_dies_in_a_deployment_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(*_: object) -> list[UUID]:
        return []

    async def pause(_: object) -> None:
        raise httpx.ConnectError("All connection attempts failed")

    def deploy() -> None:
        raise PrecisError("`prefect deploy --all` failed.")

    monkeypatch.setattr(prefect_server, "check", answer)
    monkeypatch.setattr(pool, "ensure", answer)
    monkeypatch.setattr(pool, "paused", answer)
    monkeypatch.setattr(pool, "pause", pause)
    monkeypatch.setattr(up, "deploy", deploy)
    server: Any = SimpleNamespace(wait=answer, ui="", show_password=None)
    with pytest.raises(PrecisError, match="did not take the deployments: All connection attempts"):
        up._stand_up(server, plain_console(), None)


async def test_what_ends_a_worker_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    async def end(*_: object) -> None:
        inner = ExceptionGroup("runs", [PrecisError("Left 1 of its runs killed.")])
        raise ExceptionGroup("worker", [inner])

    monkeypatch.setattr(worker, "_work", end)
    with pytest.raises(PrecisError, match="Left 1 of its runs killed"):
        await worker.work(1, print)


async def test_a_deleted_run_keeps_no_other_going(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else that one is killed in the end, and its rented machine is left behind."""
    deleted, other = uuid4(), uuid4()
    going = [deleted, other]

    async def ask(run: UUID, state: State[Any] | None = None) -> Any:
        if run == deleted:
            raise ObjectNotFound(Exception("no such run"))
        if state is not None:
            assert state.type == StateType.CANCELLING
            going.remove(run)
        return SimpleNamespace(name="other")

    client = SimpleNamespace(read_flow_run=ask, set_flow_run_state=ask)
    stand_in: Any = SimpleNamespace(client=client)
    monkeypatch.setattr(worker.WorkerShift, "_going", lambda _: list(going))
    monkeypatch.setattr(worker, "_CANCEL_PATIENCE_S", 0.0)
    said: list[str] = []
    shift = worker.WorkerShift(stand_in, said.append)
    shift.on_terminate()
    with pytest.raises(PrecisError, match="Left 1 of its runs killed"):
        await shift.work()
    assert going == [deleted]
    assert any(str(deleted) in sentence for sentence in said[1:])


@pytest.mark.parametrize("is_gone", [False, True])
async def test_a_second_sigterm_changes_nothing_and_a_later_ctrl_c_kills_without_a_server(
    is_gone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = uuid4()
    going = [run]
    asked, answering = asyncio.Event(), asyncio.Event()

    async def take(run: UUID, _: State[Any]) -> None:
        asked.set()
        await answering.wait()
        going.remove(run)

    async def read(_: UUID) -> Any:
        return SimpleNamespace(name="a run")

    client = SimpleNamespace(read_flow_run=read, set_flow_run_state=take)
    stand_in: Any = SimpleNamespace(client=client)
    monkeypatch.setattr(worker.WorkerShift, "_going", lambda _: list(going))
    said: list[str] = []
    shift = worker.WorkerShift(stand_in, said.append)
    shift.on_terminate()
    finishing = asyncio.create_task(shift.work())
    await asked.wait()
    shift.on_terminate()
    await asyncio.sleep(0.1)
    if is_gone:
        shift.on_interrupt()
        with pytest.raises(PrecisError, match="Left 1 of its runs killed"):
            await asyncio.wait_for(finishing, 60)
    else:
        answering.set()
        await asyncio.wait_for(finishing, 60)
        assert not going and len(said) == 1


async def test_a_worker_sees_cancelled_runs_after_an_outage_of_the_server() -> None:
    class Found(Exception):
        pass

    outage: list[Exception] = [httpx.ConnectError("refused")] * 5

    async def look() -> None:
        raise outage.pop() if outage else Found

    looks: Any = _observation_delivery.critical_service_loop  # type: ignore[attr-defined]
    with pytest.raises(Found):
        await looks(workload=look, interval=0)


@pytest.mark.parametrize("state", [Cancelling(), Crashed(), AwaitingRetry()])
async def test_a_run_is_shown_as_cancelled_unless_it_is_retried_by_then(state: Any) -> None:
    written: list[object] = []

    async def read(_: UUID) -> FlowRun:
        return FlowRun(flow_id=uuid4(), state=state)

    async def write(_: UUID, state: object, force: bool) -> None:
        written.append(state)

    client: Any = SimpleNamespace(read_flow_run=read, set_flow_run_state=write)
    cancelled = FlowRun(flow_id=uuid4(), state=Cancelling())
    assert await _state_proposer.StateProposer(client=client).propose_cancelled(cancelled)
    assert bool(written) == (not state.is_scheduled())


async def test_no_flow_is_imported_for_hooks_between_a_run_s_end_and_its_last_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[Path] = []
    monkeypatch.setattr(_workspace_hook_runner, "read_model", lambda path, _: looked.append(path))
    runner = _workspace_hook_runner.WorkspaceHookRunner(manifest_path=tmp_path, stream_output=False)
    run = FlowRun(flow_id=uuid4())
    await runner.run_cancellation_hooks(run, Cancelling())
    await runner.run_crashed_hooks(run, Crashed())
    assert not looked


async def test_an_answer_that_is_none_ends_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy's page of HTML, say; else Prefect's worker would kill all of its runs."""
    answers = ["<html>Back soon</html>", "[]"]

    async def look() -> None:
        httpx.Response(200, text=answers.pop(0)).json()
        os.kill(os.getpid(), signal.SIGTERM)

    class StandIn(nullcontext[None]):
        get_and_submit_flow_runs = staticmethod(look)

    monkeypatch.setattr(worker, "ProcessWorker", lambda **_: StandIn())
    monkeypatch.setattr(worker.WorkerShift, "_going", lambda _: [])
    said: list[str] = []
    await worker.work(limit=1, query_s=0.01, say=said.append)
    assert len(said) == 1
    assert "will be asked again: JSONDecodeError" in said[0]


@pytest.mark.parametrize(
    ("needs", "known", "active", "slug"),
    [
        ("", None, True, "regular"),
        ("json", None, True, "regular"),
        ("no_such_package", None, False, "without-no_such_package"),
        # It was deployed before the package was installed.
        ("json", ("without-json", False), True, "regular"),
        # Somebody has switched it off.
        ("json", ("regular", False), False, "regular"),
        ("json", ("paused regular", True), False, "regular"),
    ],
)
async def test_a_schedule_is_on_where_what_it_needs_is_installed_and_nobody_switched_it_off(
    needs: str,
    known: tuple[str, bool] | None,
    active: bool,
    slug: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def read_deployment(name: str) -> Any:
        if known is None:
            raise ObjectNotFound(Exception(name))
        schedule = SimpleNamespace(slug=known[0].removeprefix("paused "), active=known[1])
        return SimpleNamespace(paused=known[0].startswith("paused "), schedules=[schedule])

    client = SimpleNamespace(read_deployment_by_name=read_deployment)
    monkeypatch.setattr(pool, "get_client", lambda: nullcontext(client))
    assert await pool.schedule_of("cluster-sweep/sweep", needs) == {"active": active, "slug": slug}


async def test_deployments_are_listed_and_stay_paused(monkeypatch: pytest.MonkeyPatch) -> None:
    paused = []

    class Client:
        """Of a server with many flows, whose first page has none of the pool's."""

        async def read_flows(self, work_pool_filter: WorkPoolFilter | None = None) -> list[Any]:
            if work_pool_filter is None:
                return [SimpleNamespace(id=number, name="other") for number in range(200)]
            return [SimpleNamespace(id=200, name="train")]

        async def read_deployments(self, work_pool_filter: WorkPoolFilter) -> list[Any]:
            return [
                SimpleNamespace(id=name, flow_id=200, name=name, paused=name == "nightly")
                for name in ("nightly", "h100")
            ]

        async def pause_deployment(self, deployment_id: str) -> None:
            paused.append(deployment_id)

    monkeypatch.setattr(pool, "get_client", lambda: nullcontext(Client()))
    assert await pool.deployments() == ["train/h100", "train/nightly"]
    await pool.pause(await pool.paused())
    assert paused == ["nightly"]


async def test_only_our_active_automations_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    def automation(name: str, *, enabled: bool = True) -> SimpleNamespace:
        return SimpleNamespace(id=name, name=name, enabled=enabled)

    of_others = automation("a pager of others")
    kept = [automation("precis: b"), of_others, automation("precis: a")]
    kept.append(automation("precis: switched off", enabled=False))

    class Client:
        async def read_automations(self) -> list[SimpleNamespace]:
            return list(kept)

        async def delete_automation(self, key: str) -> None:
            kept[:] = [one for one in kept if one.id != key]

    monkeypatch.setattr(automations, "get_client", lambda: nullcontext(Client()))
    assert await automations.active() == ["a", "b"]
    await automations.remove()
    assert kept == [of_others]


async def test_a_server_that_is_out_at_first_is_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the job ends with an error, and SkyPilot starts it nowhere again."""
    outages = [httpx.ConnectError("refused"), httpx.ConnectError("refused")]

    class Server:
        """Refuses two looks, and knows one run that has ended."""

        async def api_healthcheck(self) -> Exception | None:
            return outages.pop() if outages else None

        async def read_flow_run(self, run: UUID) -> FlowRun:
            if outages:
                raise outages[0]
            return FlowRun(id=run, flow_id=uuid4(), state=Completed())

    context = SimpleNamespace(client=Server())
    monkeypatch.setattr(managed_run, "get_client", lambda: nullcontext(Server()))
    monkeypatch.setattr(managed_run, "FlowRunExecutorContext", lambda: nullcontext(context))
    monkeypatch.setattr(managed_run, "_LOOK_S", 0.0)
    assert await managed_run.execute(uuid4()) == 0
