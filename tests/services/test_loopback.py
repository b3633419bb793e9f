"""Children on the loopback: they start, they ask for their token, they go with their parent."""

import json
import subprocess
import sys
from pathlib import Path

import httpx
import psutil
import pytest

from precis.errors import TrainerError
from precis.processes.child import child_service
from tests.services.patience import patience_s

_CHATTY = """
import subprocess, sys
from starlette.responses import PlainTextResponse
from precis.processes.child import serve

async def app(scope, receive, send):
    if scope["type"] == "http":
        print("the child's line\\n" * 20_000, flush=True)
        grandchild = "import os; os.write(1, b\\"the grandchild's line\\\\n\\" * 20_000)"
        subprocess.run([sys.executable, "-c", grandchild], check=True)
        await PlainTextResponse("printed")(scope, receive, send)

serve(app, with_parent=True)
"""


async def test_a_child_serves_behind_its_token_and_stops_with_the_block(tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with child_service("precis.rehearsal.judges.serve", [], log) as up:
        async with httpx.AsyncClient(base_url=up.url, timeout=patience_s()) as client:
            assert (await client.get("/v1/models")).status_code == 401
            allowed = await client.get(
                "/v1/models", headers={"authorization": f"Bearer {up.token}"}
            )
        assert [one["id"] for one in allowed.json()["data"]] == ["lexical-judge"]
        listening = {c.laddr.ip for c in psutil.Process(up.pid).net_connections("inet")}
        assert listening == {"127.0.0.1"}
    assert not psutil.pid_exists(up.pid)


def test_a_judge_goes_when_its_parent_is_gone() -> None:
    command = [sys.executable, "-m", "precis.rehearsal.judges.serve"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as judge:
        assert judge.stdin and judge.stdout
        try:
            assert "port" in json.loads(judge.stdout.readline())
            judge.stdin.close()  # as the kernel does when the parent ends
            assert judge.wait(patience_s()) == 0
        finally:
            judge.kill()


async def test_a_child_waits_for_no_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chatty = tmp_path / "chatty.py"
    chatty.write_text(_CHATTY)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path.cwd()}")
    async with child_service("chatty", [], tmp_path / "log") as up, httpx.AsyncClient() as client:
        assert (await client.get(up.url, timeout=patience_s())).text == "printed"
    log = (tmp_path / "log").read_text()
    assert log.count("the child's line") == 20_000
    assert log.count("the grandchild's line") == 20_000
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o600


async def test_a_child_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    with pytest.raises(TrainerError, match=r"No module named precis\.nothing"):
        async with child_service("precis.nothing", [], log):
            pass
    (tmp_path / "hung.py").write_text("input()")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr("precis.processes.child._START_TIMEOUT_S", 0.2)
    with pytest.raises(TrainerError, match=f"hung did not listen within 0 s.*{log}"):
        async with child_service("hung", [], log):
            pass
