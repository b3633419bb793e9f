"""A Prefect server of our own: its start and stop, one at a time, and its end when it is unused."""

import asyncio
import os
import signal
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from prefect.server.database.configurations import AioSqliteConfiguration
from sqlalchemy import text
from starlette.types import Receive, Scope, Send

from cli import prefect_process, prefect_server, serve_prefect, up, worker
from cli.prefect_server import PrefectServer, keep_running
from cli.prefect_settings import find_api_url, secrets_for
from cli.serve_prefect import LastUse, end_when_unused, write_in_turn
from precis.commands.terminal import plain_console
from precis.environment import Variables
from precis.errors import ConfigError, LockHeld
from tests.services.patience import patience_s
from tests.support.stopped import stopped_process

HOUR = 3600.0
HANG = """
import os, signal
from cli import prefect_process
from precis.processes.file_lock import acquire

with (prefect_process.home() / "server.pid").open("w") as pid:
    acquire(pid)
    print(os.getpid(), file=pid, flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
"""


def test_a_stop_waits_for_no_starting_command(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefect_process, "_LOCK_PATIENCE_S", 0.2)
    (home / "prefect").mkdir(parents=True)
    said = f"prefect/lock is held by process {os.getpid()} on "
    with prefect_process._alone(), pytest.raises(LockHeld, match=said):
        prefect_process.stop()


@pytest.mark.parametrize("is_ours_to_stop", [False, True])
def test_ctrl_c_does_not_wait_for_a_restarted_server_that_does_not_answer_yet(
    is_ours_to_stop: bool, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prefect's threads wait for a server that is gone; the stop of ours is interrupted too."""
    restarted, left = threading.Event(), threading.Event()
    codes: list[int] = []

    def start_again() -> bool:
        restarted.set()
        return True

    async def work(*_: object) -> None:
        """Until Ctrl-C, which comes while `keep_running` waits for an answer."""
        assert await asyncio.to_thread(restarted.wait, 60)
        await asyncio.sleep(0.1)

    def stop() -> None:
        raise KeyboardInterrupt

    def leave(code: int) -> None:
        codes.append(code)
        left.set()

    server = PrefectServer("http://127.0.0.1:9/api", ours=True, started=is_ours_to_stop)
    monkeypatch.setattr(prefect_process, "start_again", start_again)
    monkeypatch.setattr(prefect_process, "is_up", lambda: True)
    monkeypatch.setattr(prefect_server, "find_or_start", lambda **_: server)
    monkeypatch.setattr(prefect_server, "stop", stop)
    monkeypatch.setattr(worker, "work", work)
    monkeypatch.setattr(up, "_output_to", lambda _: nullcontext())
    monkeypatch.setattr(up, "_stand_up", lambda *_: None)
    monkeypatch.setattr(up, "_FLUSH_TIMEOUT_S", 0.1)
    monkeypatch.setattr(os, "_exit", leave)
    interrupted = pytest.raises(KeyboardInterrupt) if is_ours_to_stop else nullcontext()
    before = signal.getsignal(signal.SIGTERM)
    try:
        with interrupted:
            up.up(plain_console(), share=False, port=None, automations=None, limit=1)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert left.wait(60)
    assert codes == [0]


@pytest.fixture
def unset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of this process and of Prefect's profiles, with the active one `mine`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(Variables.model_config, "env_file", ".env")
    monkeypatch.setenv("PREFECT_API_URL", "")
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    monkeypatch.setenv("PREFECT_PROFILE", "mine")
    return tmp_path


@pytest.mark.parametrize("is_interrupted", [False, True])
def test_a_server_that_hangs_is_killed_at_ctrl_c_or_in_the_end(
    is_interrupted: bool, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(prefect_process, "_STOP_TIMEOUT_S", 3600.0 if is_interrupted else 0.2)
    (home / "prefect").mkdir(parents=True)
    with stopped_process(HANG) as server:
        if is_interrupted:
            with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
                patch.setattr(time, "sleep", interrupt)
                prefect_process.stop()
        else:
            assert prefect_process.stop()
        assert server.wait(patience_s()) == -signal.SIGKILL


async def test_a_server_that_ends_at_once_is_not_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    started = 0

    def start_again() -> bool:
        nonlocal started
        started += 1
        return True

    # Nothing listens at the address of what was started, and its process is not there any more.
    monkeypatch.setattr(prefect_process, "start_again", start_again)
    monkeypatch.setattr(prefect_server, "_LOOK_S", 0.01)
    said: list[str] = []
    async with keep_running(PrefectServer("http://127.0.0.1:9/api", ours=True), said.append):
        async with asyncio.timeout(60):
            while len(said) < 2:
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
    assert started == 1
    assert said[0] == "The Prefect server had died, and was restarted."
    assert "can't be restarted" in said[1] and "server.log" in said[1]


@pytest.mark.parametrize(
    ("file", "written"),
    [
        ("profiles.toml", "not [toml"),
        ("profiles.toml", "profiles = 5"),
        ("profiles.toml", "[profiles]\nmine = 1"),
        ("prefect.toml", "api = 5"),
        ("prefect.toml", None),
    ],
)
def test_bad_settings_of_prefect_are_named(file: str, written: str | None, unset: Path) -> None:
    if written is None:
        (unset / file).mkdir()
    else:
        (unset / file).write_text(written)
    with pytest.raises(ConfigError, match=rf"settings in .*{file} can't be read"):
        find_api_url()


def test_a_server_is_found_as_prefect_finds_it_with_its_own_secrets(unset: Path) -> None:
    api = 'url = "http://%s/api/"\nkey = "of-%s"\n'
    written = {
        "profiles.toml": '[profiles.mine]\nPREFECT_API_URL = "http://profile/api/"\n',
        "pyproject.toml": f"[tool.prefect.api]\n{api % ('project', 'project')}",
        "prefect.toml": f"[api]\n{api % ('folder', 'folder')}",
        ".env": "PREFECT_API_URL=http://team/api\n",
    }
    for file, server in zip(written, ("profile", "project", "folder", "team"), strict=True):
        (unset / file).write_text(written[file])
        assert find_api_url() == f"http://{server}/api"
        key = f"of-{server}" if server in ("project", "folder") else ""
        assert secrets_for(f"http://{server}/api")["PREFECT_API_KEY"] == key


@pytest.mark.parametrize(
    "variable", ["PREFECT_SERVER_API_AUTH_STRING", "PREFECT_API_AUTH_STRING", "PREFECT_API_KEY"]
)
def test_a_bad_password_gets_a_sentence(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its server answers each request with such a one by an error of its own."""
    monkeypatch.setenv(variable, "ana:señor-secreto")
    with pytest.raises(ConfigError, match=f"{variable} has a character that is not in ASCII"):
        secrets_for("http://team/api")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("path", "kind", "lasts", "idle_during", "idle_after"),
    [
        ("/api/flow_runs/filter", "http", 0, 0, 0),
        ("/api/health", "http", 0, 5, 5),
        ("/api/events/in", "websocket", 99, 0, 0),
    ],
)
async def test_whoever_asks_for_anything_but_its_health_uses_the_server(
    path: str, kind: str, lasts: int, idle_during: int, idle_after: int
) -> None:
    clock = Clock()
    use = LastUse(clock)
    clock.now = 5 * HOUR
    assert use.idle_s == 5 * HOUR

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        clock.now += lasts * HOUR
        assert use.idle_s == idle_during * HOUR

    nothing: Any = None
    await use.around(app)({"type": kind, "path": path}, nothing, nothing)
    assert use.idle_s == idle_after * HOUR


@pytest.mark.parametrize(
    ("hours", "is_moved", "reasons"),
    [
        (23, False, []),
        (24.1, False, ["For 24 hours nobody has asked for anything."]),
        (0, True, ["{folder} is gone."]),
    ],
)
def test_a_server_ends_that_nobody_has_used_for_a_day_or_whose_folder_is_gone(
    hours: float,
    is_moved: bool,
    reasons: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(serve_prefect, "_LOOK_S", 0.0)
    lock = tmp_path / "server.pid"
    lock.touch()
    clock = Clock()
    use = LastUse(clock)
    clock.now = hours * HOUR
    said: list[str] = []

    class ThreeLooks(threading.Event):
        left = 3

        def wait(self, timeout: float | None = None) -> bool:
            self.left -= 1
            if is_moved and self.left == 1:
                lock.rename(lock.with_name("moved"))
            return self.left < 0

    end_when_unused(lock, use, said.append, ThreeLooks())
    assert said == [reason.format(folder=tmp_path) for reason in reasons]


async def test_transactions_write_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = AioSqliteConfiguration.begin_transaction
    monkeypatch.setattr(AioSqliteConfiguration, "begin_transaction", begin)  # restored afterwards
    write_in_turn()
    data = AioSqliteConfiguration(f"sqlite+aiosqlite:///{tmp_path / 'prefect.db'}")
    engine = await data.engine()

    async def count_one() -> None:
        async with await data.session(engine) as session, data.begin_transaction(session):
            counted = (await session.execute(text("SELECT n FROM runs"))).scalar_one()
            await session.execute(text(f"UPDATE runs SET n = {counted + 1}"))

    async with engine.begin() as connection:
        await connection.execute(text("CREATE TABLE runs AS SELECT 0 AS n"))
    await asyncio.gather(*(count_one() for _ in range(10)))
    async with engine.connect() as connection:
        assert (await connection.execute(text("SELECT n FROM runs"))).scalar_one() == 10
    await engine.dispose()
