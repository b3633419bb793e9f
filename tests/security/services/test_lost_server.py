"""A Prefect server that dies, or was never there: what is said, how soon, and what comes back."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.services.conftest import ROOT, Precis, Up, the_migrated
from tests.services.patience import read_to_end, stretched, wait_until
from tests.services.prefect_api import client_of

STEPS = 6
FEW = {"TRAIN_SIZE": "20", "VAL_SIZE": "2"}
SOON = """
import sys
import cli.prefect_server
from precis.commands.main import app

find_or_start = cli.prefect_server.find_or_start

def found():
    server = find_or_start()
    import cli.rehearsal  # only now: Prefect reads its address when it is imported

    cli.rehearsal._FAREWELL_S = 3.0
    return server

cli.prefect_server.find_or_start = found
cli.prefect_server._ASK_S = 1.0
cli.prefect_server._LOST_AFTER_S = float(sys.argv.pop(1))
sys.argv[0] = "precis"
app()
"""
"""The command, which gives a server up after the seconds that are its first argument."""
SOON_S = 8.0
NEVER_S = 3600.0


def started(tmp_path: Path, name: str) -> Precis:
    """A home with a server of its own, which the test may kill."""
    precis = Precis(tmp_path / name)
    precis.serve()
    return precis


def kill_server(precis: Precis) -> None:
    os.kill(int((precis.home / "prefect" / "server.pid").read_text()), signal.SIGKILL)


def begin(
    precis: Precis, store: Path, lost_after_s: float, **environment: str
) -> subprocess.Popen[str]:
    """A rehearsal that is about to commit a step."""
    arguments = (str(lost_after_s), "rehearse", "--steps", str(STEPS), "--store", str(store))
    return subprocess.Popen(
        [sys.executable, "-c", SOON, *arguments],
        cwd=ROOT,
        env={**precis.environment, **FEW, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wait_for_a_step(process: subprocess.Popen[str], store: Path) -> None:
    def has_committed() -> bool:
        assert process.poll() is None, process.communicate()[0]
        return (store / "rehearsal-seed1" / "ledger.json").exists()

    wait_until(has_committed, "the rehearsal's first step", pause_s=0.05)


@pytest.mark.long  # minutes of silence, as the next three
def test_a_rehearsal_whose_server_is_killed_brings_it_back_and_completes(tmp_path: Path) -> None:
    precis = started(tmp_path, "home")
    try:
        process = begin(precis, tmp_path / "store", SOON_S)
        wait_for_a_step(process, tmp_path / "store")
        kill_server(precis)
        output = read_to_end(process)
        assert process.returncode == 0, output
        assert "The Prefect server had died, and was restarted." in output
        assert "Traceback" not in output and "failed to process" not in output
        with client_of(precis.api) as api:
            runs = api.post("/flow_runs/filter", json={}).raise_for_status().json()
        assert {run["state_type"] for run in runs} == {"COMPLETED"}
    finally:
        precis.run("stop")


Stranded = dict[float, "subprocess.Popen[str]"]


@pytest.fixture(scope="module")
def stranded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stranded]:
    """Rehearsals whose server, which is another's, is gone: by when each gives it up."""
    folder = tmp_path_factory.mktemp("stranded")
    other = started(folder, "other")
    begun: Stranded = {}
    try:
        for lost_after_s in (SOON_S, NEVER_S):
            home, store = (folder / f"{name}-{lost_after_s}" for name in ("home", "store"))
            begun[lost_after_s] = begin(
                Precis(home), store, lost_after_s, PREFECT_API_URL=other.api
            )
        for lost_after_s, process in begun.items():
            wait_for_a_step(process, folder / f"store-{lost_after_s}")
        kill_server(other)
        yield begun
    finally:
        for process in begun.values():
            process.kill()
            process.wait()


@pytest.mark.long
def test_a_lost_server_of_another_ends_a_rehearsal_with_a_sentence(stranded: Stranded) -> None:
    process = stranded[SOON_S]
    began = time.monotonic()
    output = read_to_end(process)
    assert time.monotonic() - began < stretched(60), "eight seconds on an idle machine"
    assert process.returncode == 1
    assert "does not answer any more. The same command continues" in " ".join(output.split())
    assert "Traceback" not in output and "EventsWorker" not in output


@pytest.mark.long
def test_ctrl_c_without_a_server_ends_soon_and_with_a_sentence(stranded: Stranded) -> None:
    process = stranded[NEVER_S]
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    output = read_to_end(process)
    assert time.monotonic() - began < stretched(60), "three seconds on an idle machine"
    assert process.returncode == 1
    assert "Interrupted. The same command continues" in " ".join(output.split())
    assert "Traceback" not in output


@pytest.mark.long
def test_up_brings_its_server_back_unless_it_was_stopped(tmp_path: Path) -> None:
    precis = Precis(tmp_path / "home")
    with the_migrated() as database:
        precis.take(database)
    up = Up(precis, tmp_path / "up.txt")
    try:
        assert "then stops the worker and the server. " in up.prints("Worker takes")
        with client_of(precis.api) as api:
            wait_until(lambda: _has_a_worker(api), "the worker")
            kill_server(precis)
            up.prints("was restarted")
            wait_until(lambda: _answers(api), "an answer of the new server")
            assert api.get("/work_pools/precis").is_success, "its data is gone"
        precis.run("stop")
        time.sleep(3)
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{precis.api}/health")
    finally:
        began = time.monotonic()
        ended = up.ends(signal.SIGTERM)
    assert ended == 0
    assert time.monotonic() - began < stretched(60), "ten seconds on an idle machine; it took 137"
    assert "Traceback" not in up.output.read_text()


def _has_a_worker(api: httpx.Client) -> bool:
    """Whether the worker has started, which without a server takes two minutes."""
    workers = api.post("/work_pools/precis/workers/filter", json={}).raise_for_status().json()
    return bool(workers)


def _answers(api: httpx.Client) -> bool:
    try:
        return api.get("/health").is_success
    except httpx.TransportError:
        return False


@pytest.mark.parametrize("command", ["rehearse", "worker"])
def test_an_address_where_nobody_answers_is_said_at_once(command: str, tmp_path: Path) -> None:
    precis = Precis(tmp_path / "home")
    began = time.monotonic()
    output, code = precis.outcome(command, PREFECT_API_URL="http://127.0.0.1:9/api")
    assert time.monotonic() - began < stretched(60), "it waited 180 s once"
    assert code == 1
    assert "at http://127.0.0.1:9/api does not answer" in " ".join(output.split())
    assert "Traceback" not in output


def test_a_port_that_is_in_use_is_called_that(tmp_path: Path) -> None:
    precis = Precis(tmp_path / "home")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        output, code = precis.outcome("up", "--port", str(port))
    assert code == 1
    assert f"Port {port} is in use" in " ".join(output.split())
