"""`precis up` on a server that is there already: what it makes, and what its end leaves."""

import json
import shutil
import signal
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import httpx
import psutil
import pytest

from tests.services.conftest import COMMAND, ROOT, Precis, the_migrated
from tests.services.patience import patience_s, wait_until
from tests.services.prefect_api import AUTH, client_of, created, reached

LONG = {
    "model": "interrupted",
    "steps": 500,
    "documents": {"source": "bundled", "train_size": 40, "val_size": 8},
    "benchmark": False,
}


class Up:
    """`precis up` at work, and what it has printed so far."""

    def __init__(self, precis: Precis, output: Path, *options: str, **environment: str) -> None:
        self.output = output
        with output.open("w") as file:
            self.process = subprocess.Popen(
                [str(COMMAND), "up", *options],
                cwd=ROOT,
                env={**precis.environment, **environment},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )

    def prints(self, words: str) -> str:
        """Wait until it has printed these words; all that it has printed."""

        def has_printed() -> bool:
            assert self.process.poll() is None, self._text()
            return words in self._text()

        wait_until(has_printed, f"the words {words!r}", told=self._text)
        return self._text()

    def _text(self) -> str:
        return " ".join(self.output.read_text().split())

    def ends(self, *signals: signal.Signals) -> int:
        """Send signals, a second apart, and wait for its end."""
        for each in signals:
            self.process.send_signal(each)
            time.sleep(1)
        return self.process.wait(patience_s())


@pytest.fixture
def up(precis: Precis, tmp_path: Path) -> Iterator[Up]:
    started = Up(precis, tmp_path / "up.txt")
    yield started
    if started.process.poll() is None:
        started.process.kill()
        started.process.wait()


@pytest.mark.long  # a run that goes on for a minute, to be cancelled
def test_it_deploys_and_works_and_ctrl_c_cancels_in_order_and_stops_nothing_else(
    precis: Precis, up: Up, tmp_path: Path
) -> None:
    told = up.prints("Ctrl-C waits")
    assert f"export PREFECT_API_URL={precis.api}" in told
    for deployment in ("benchmark/nightly", "benchmark/rehearsal", "train/rehearsal"):
        assert deployment in told
    assert "Automations none: with SQLite" in told
    with client_of(precis.api) as api:
        run = created(api, "train/rehearsal", {**LONG, "store": str(tmp_path)})
        reached(api, run, "RUNNING")
        wait_until((tmp_path / "interrupted" / "ledger.json").exists, "the run's ledger")
        up.process.send_signal(signal.SIGINT)
        assert "Waiting for train interrupted to step 500." in up.prints("Waiting for")
        assert api.get(f"/flow_runs/{run}").json()["state_type"] == "RUNNING"
        told = precis.run("runs", COLUMNS="80")
        assert "train interrupted" in told and f"train/rehearsal; {run}" in told
        assert max(map(len, told.splitlines())) <= 80
        assert up.ends(signal.SIGINT) == 0
        assert "Cancelling train interrupted" in up.output.read_text()
        assert reached(api, run, "CANCELLED")["state_type"] == "CANCELLED"
        lease = json.loads((tmp_path / "interrupted" / "lease.json").read_text())
        assert lease["released"], "the run did not clean up"
        assert api.get("/health").is_success, "the server was not ours to stop"
    assert "Traceback" not in (precis.home / "worker.log").read_text()


def test_a_server_that_it_started_goes_with_it(tmp_path: Path) -> None:
    precis = Precis(tmp_path / "home")
    with the_migrated() as database:
        precis.take(database)
    up = Up(precis, tmp_path / "up.txt", "--limit", "2")
    assert "Worker takes up to 2 runs at a time" in up.prints("Worker takes")
    _has_a_service_fail(precis)
    assert httpx.get(precis.api + "/health").is_success
    assert up.ends(signal.SIGTERM) == 0
    with pytest.raises(httpx.ConnectError):
        httpx.get(precis.api + "/health")


def _has_a_service_fail(precis: Precis) -> None:
    """The server logs an error from the background, as it does when SQLite is locked for long."""
    event = {
        "id": str(uuid4()),
        "occurred": datetime.now(UTC).isoformat(),
        "event": "precis.test",
        "resource": {"prefect.resource.id": "precis.test"},
    }
    with sqlite3.connect(precis.home / "prefect" / "prefect.db", timeout=60) as database:
        database.execute("ALTER TABLE events RENAME TO elsewhere")
        database.commit()
        httpx.post(f"{precis.api}/events", json=[event], auth=AUTH).raise_for_status()
        log = precis.home / "prefect" / "server.log"
        wait_until(lambda: "no such table: events" in log.read_text(), "the server's error")
        database.execute("ALTER TABLE elsewhere RENAME TO events")


@pytest.mark.parametrize("password", ["", "precis", "ana:short"])
def test_it_is_not_shared_without_a_password(precis: Precis, password: str) -> None:
    output, _, code = precis.outcome("up", "--share", PREFECT_SERVER_API_AUTH_STRING=password)
    assert code == 1
    assert "set PREFECT_SERVER_API_AUTH_STRING to `user:password`" in " ".join(output.split())
    assert "Traceback" not in output


def test_a_server_that_is_up_is_not_shared_behind_its_back(precis: Precis) -> None:
    secret = {"PREFECT_SERVER_API_AUTH_STRING": "ana:correct-horse-battery"}
    output, _, code = precis.outcome("up", "--share", **secret)
    assert code == 1
    assert "only one that is started here can be shared" in " ".join(output.split())


@pytest.mark.long  # tests/unit/cli/test_serve_prefect.py has each reason to end
def test_a_server_whose_folder_is_deleted_ends_by_itself(tmp_path: Path) -> None:
    own = Precis(tmp_path / "home")
    own.serve()
    server = psutil.Process(int((own.home / "prefect" / "server.pid").read_text()))
    shutil.rmtree(own.home)
    wait_until(lambda: not server.is_running(), "the server's end")
