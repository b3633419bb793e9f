"""Weights & Biases: offline it keeps its files; whatever happens to it, nobody waits."""

import logging
import socket
import time
from pathlib import Path

import pytest

from precis.environment import Variables
from precis.observe import wandb
from precis.observe.wandb import wandb_log
from precis.report.curve import Curve, learning_curve
from tests.services.patience import patience_s, stretched, until
from tests.services.wandb_server import WandbServer

KEY = "0123456789012345678901234567890123456789"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    # W&B's program begins anew for each run, which takes a busy machine long.
    monkeypatch.setattr(wandb, "_REACH_TIMEOUT_S", patience_s())
    monkeypatch.setattr(wandb, "_FINISH_TIMEOUT_S", patience_s())


async def test_without_a_network_it_is_said_and_the_run_kept_and_no_argument_tells_others_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    private = {"notify": "canary-in-the-configuration"}
    (tmp_path / "results.parquet").write_bytes(b"PAR1 as far as W&B can tell")
    with caplog.at_level(logging.WARNING, wandb.logger.name):
        async with wandb_log("m", "id1", private, tmp_path / "w") as log:
            assert log is not None
            log.log(0, {"reward": 0.25})
            # The kernel has none of a program that is about to begin.
            arguments = await until(
                Path(f"/proc/{log._child.process.pid}/cmdline").read_text, "the process's arguments"
            )
            log.table(1, "samples", ["document", "summary"], [["d1", "The mayor."]])
            log.results("m-results", tmp_path / "results.parquet")
    assert log._child.process.returncode == 0, "it was given up on"
    assert "W&B can't be reached at http://127.0.0.1:9" in caplog.text
    assert "precis.observe.wandb" in arguments
    assert "canary" not in arguments
    told = b"".join(path.read_bytes() for path in tmp_path.rglob("run-id1.wandb"))
    for recorded in (b"canary", b"table-file", b"m-results", b"results.parquet"):
        assert recorded in told
    kept = b"".join(path.read_bytes() for path in (tmp_path / "w").rglob("*") if path.is_file())
    assert KEY.encode() not in kept and b"The mayor." in kept


async def test_a_server_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wandb, "_REACH_TIMEOUT_S", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("WANDB_MODE", "online")
        monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        assert "Timeout" in str(await wandb.unreachable())


async def test_a_project_that_w_b_refuses_is_said_though_nothing_more_is_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setitem(Variables.model_config, "env_file", tmp_path / ".env")
    (tmp_path / ".env").write_text("WANDB_PROJECT=team/precis\n")
    with caplog.at_level(logging.WARNING, wandb.logger.name):
        async with wandb_log("m", "id1", {}, tmp_path / "w") as log:
            assert log is not None
            log.log(0, {"reward": 0.25})
    (said,) = caplog.messages
    assert "Invalid project name 'team/precis'" in said
    assert said.endswith(f"All that it printed is in {tmp_path / 'w' / 'wandb.log'}.")


async def test_metrics_and_charts_reach_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chart = tmp_path / "curve.png"
    chart.write_bytes(learning_curve(Curve({0: 0.1, 1: 0.2})).png())
    server = WandbServer()
    async with server as url:
        monkeypatch.setenv("WANDB_MODE", "online")
        monkeypatch.setenv("WANDB_BASE_URL", url)
        async with wandb_log("m", "id1", {"steps": 2}, tmp_path / "w") as log:
            assert log is not None
            log.log(0, {"reward": 0.25})
        async with wandb_log("m", "id1", {"steps": 2}, tmp_path / "w") as log:
            assert log is not None
            log.log(1, {"reward": 0.5})
            log.images({"curve": chart})
    output = (tmp_path / "w" / "wandb.log").read_text()
    assert set(server.runs) == {"id1"} and server.keys == {KEY}, output
    rows = {row["_step"]: row for row in server.history["id1"]}
    assert (rows[0]["reward"], rows[1]["reward"]) == (0.25, 0.5), output
    assert any(name.endswith(".png") for name in server.uploads)


async def test_a_lost_server_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wandb, "_FINISH_TIMEOUT_S", 3)
    server = WandbServer()
    async with server as url:
        monkeypatch.setenv("WANDB_MODE", "online")
        monkeypatch.setenv("WANDB_BASE_URL", url)
        context = wandb_log("m", "id1", {}, tmp_path / "w")
        log = await context.__aenter__()
        assert log is not None
        log.log(0, {"reward": 0.25})
        await until(lambda: server.runs, "the run at the server")
    start = time.monotonic()
    log.log(1, {"reward": 0.5})
    assert time.monotonic() - start < stretched(60)
    await context.__aexit__(None, None, None)
    assert time.monotonic() - start < stretched(60)
