"""What `precis up` refuses, and how its worker ends."""

import asyncio
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli import prefect_process, prefect_server, up, worker
from precis.errors import ConfigError, PrecisError


def test_prefect_s_last_words_come_after_the_end_and_go_to_the_log(tmp_path: Path) -> None:
    log = tmp_path / "worker.log"
    with up._output_to(log):
        handler = logging.StreamHandler()
    handler.handle(logging.makeLogRecord({"msg": "a heartbeat was lost"}))
    assert log.read_text() == "a heartbeat was lost\n"
    handler.stream.close()


@pytest.mark.parametrize("command", ["up", "rehearse"])
def test_a_home_that_cannot_be_made_is_said_in_a_sentence(command: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    home = tmp_path / "file" / "home"
    environment = {**os.environ, "PRECIS_HOME": str(home), "PREFECT_API_URL": ""}
    # These commands change signals and warnings of the process that they run in.
    done = subprocess.run(
        [sys.executable, "-m", "precis", command], env=environment, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"Can't make the folder {home}")
    assert done.stderr.endswith("Let PRECIS_HOME name a folder that this user can write.\n")


@pytest.mark.parametrize("password", ["", "precis", "ana:short"])
def test_a_server_is_not_shared_without_a_password(
    password: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_SERVER_API_AUTH_STRING", password)
    with pytest.raises(ConfigError, match="set PREFECT_SERVER_API_AUTH_STRING to `user:password`"):
        up.demand_password()


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"share": True}, "only one that is started here can be shared.*leave --share out"),
        ({"port": 10}, "only one that is started here can be given a port.*leave --port out"),
    ],
)
def test_a_server_that_is_up_is_not_changed_behind_its_back(
    asked: dict[str, Any], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    with pytest.raises(ConfigError, match=sentence):
        prefect_server.find_or_start(**asked)


def test_a_server_that_is_still_starting_is_not_changed_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "")
    monkeypatch.setenv("PREFECT_HOME", "")
    monkeypatch.setattr(prefect_process, "address", lambda: "http://127.0.0.1:9/api")
    monkeypatch.setattr(prefect_process, "start", lambda *_: False)
    monkeypatch.setattr(prefect_process, "SETTINGS", {})
    with pytest.raises(ConfigError, match="leave --share out"):
        prefect_server.find_or_start(share=True)


async def test_what_ends_a_worker_is_a_sentence_and_no_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def end(*_: object) -> None:
        inner = ExceptionGroup("runs", [PrecisError("Left 1 of its runs killed.")])
        raise ExceptionGroup("worker", [inner])

    monkeypatch.setattr(worker, "_work", end)
    with pytest.raises(PrecisError, match="Left 1 of its runs killed"):
        await worker.work(1, print)


async def test_a_signal_ends_a_look_for_runs_that_nobody_answers() -> None:
    shutdown = worker.WorkerShutdown()
    assert await shutdown.result_before_signal(asyncio.sleep(0, "a run")) == "a run"
    looking = asyncio.create_task(shutdown.result_before_signal(asyncio.sleep(3600, "a run")))
    await asyncio.sleep(0)
    shutdown.on_terminate()
    assert await asyncio.wait_for(looking, 60) is None
    assert shutdown.stage == worker.ShutdownStage.CANCELLING
