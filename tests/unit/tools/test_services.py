"""What tests of services stand on: programs that may be missing, and waits that may run out."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services import needs, patience
from tests.services.patience import SHORT_S, give_patience, read_to_end, wait_until
from tests.support.programs import put_program
from tests.support.watchdog import interrupted_after

INSTALL = Path(needs.__file__).with_name("install.sh")


class Clock:
    """Stands for the module `time`: a second passes whenever somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, _: float) -> None:
        self.now += 1


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(patience, "time", clock)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    return clock


@pytest.fixture(autouse=True)
def usual_patience() -> Iterator[None]:
    """What this test itself has left is no matter of what it tries out."""
    yield
    give_patience(SHORT_S)


def test_a_wait_that_runs_out_says_what_did_not_come_and_what_is_known(clock: Clock) -> None:
    assert wait_until(lambda: int(clock.now) // 5, "five seconds") == 1
    assert clock.now == 5
    with pytest.raises(AssertionError, match=r"The answer did not come in 180 s.* only noise"):
        wait_until(lambda: False, "The answer", told=lambda: "only noise")
    assert clock.now == pytest.approx(185, abs=1)


def test_a_process_is_read_to_its_end_and_killed_where_it_falls_silent() -> None:
    program = "import sys, time; print('begun', flush=True); time.sleep(float(sys.argv[1]))"

    def started(seconds: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", program, seconds]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    assert read_to_end(started("0")) == "begun\n"
    process = started("600")
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    give_patience(0.001)
    with pytest.raises(AssertionError, match=r"A word of .*sleep.* did not come"):
        read_to_end(process)
    assert process.returncode == -9


def test_what_hangs_without_a_limit_is_interrupted() -> None:
    with (
        pytest.raises(pytest.fail.Exception, match="The end of a test did not come"),
        interrupted_after(0.01, "a test", look_s=0.05),
    ):
        threading.Event().wait()


def test_what_is_missing_is_named_and_fails_where_all_is_to_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(needs.COMPLETE, raising=False)
    with pytest.raises(pytest.skip.Exception, match="the Debian package dash is not installed"):
        needs.need("dash", "sh", "no-such-program")
    monkeypatch.setenv(needs.COMPLETE, "1")
    assert needs.need("dash", "sh").endswith("/sh")
    with pytest.raises(pytest.fail.Exception, match="dash is not installed"):
        needs.need("dash", "no-such-program")


def test_without_root_nothing_is_installed_and_what_is_missing_is_said(tmp_path: Path) -> None:
    programs = {"id": "echo 1000", "dpkg-query": "exit 1", "apt-get": f"touch {tmp_path}/called"}
    for name, line in programs.items():
        put_program(tmp_path, name, line)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    command = [str(INSTALL), "chromium", "postgresql"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0
    assert (
        done.stderr == "Tests that need these Debian packages are left out: chromium postgresql\n"
    )
    assert not (tmp_path / "called").exists()
