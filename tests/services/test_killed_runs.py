"""A test run that is killed leaves nothing running."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from precis.processes.child import is_running
from tests.services.conftest import ROOT
from tests.services.patience import wait_until
from tests.support import held_program
from tests.support.guard import carriers, temporary_folders, writers_in


class Run:
    """A run of pytest, which holds open what it has started."""

    def __init__(self, folder: Path, workers: int = 0) -> None:
        self._ready = folder / "ready"
        command = (sys.executable, "-m", "pytest", "-n", str(workers), "-p", "no:cacheprovider")
        with (folder / "output").open("w") as output:
            self.process = psutil.Popen(
                (*command, f"{held_program.__file__}::test_programs"),
                cwd=ROOT,
                env={**os.environ, held_program.READY: str(self._ready)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            self.id = self._wait(folder / "output")
        except BaseException:
            self.kill()
            raise

    def _wait(self, output: Path) -> str:
        """Wait until all is up; the run's id."""

        def is_ready() -> bool:
            assert self.process.poll() is None, output.read_text()
            return self._ready.exists()

        wait_until(is_ready, "what the run holds open", told=output.read_text)
        return self._ready.read_text()

    def processes(self) -> list[psutil.Process]:
        """Its workers, and all that they have started."""
        found = {*self.process.children(recursive=True), *carriers(self.id)}
        for folder in temporary_folders(self.id):
            found.update(writers_in(folder))
        return list(found)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def neighbour() -> Iterator[psutil.Popen]:
    """A program of a run that is alive: this one."""
    process = psutil.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def test_what_a_killed_run_has_started_ends_with_it(tmp_path: Path) -> None:
    run = Run(tmp_path, workers=1)  # the Makefile's runs have processes of xdist's
    started = run.processes()
    assert sum(process.name() == "sleep" for process in started) == 2
    run.kill()

    def alive() -> list[psutil.Process]:
        return [process for process in started if is_running(process.pid)]

    wait_until(lambda: not alive(), "the end of what it had started", told=alive)


def test_what_a_run_left_that_was_killed_with_its_guard_ends_with_the_next(
    tmp_path: Path, neighbour: psutil.Popen
) -> None:
    run = Run(tmp_path)
    (guard,) = (one for one in run.processes() if "guard.py" in " ".join(one.cmdline()))
    programs = [one for one in run.processes() if one.name() == "sleep"]
    run.process.send_signal(signal.SIGSTOP)  # so that it does not hear of its guard's end
    guard.kill()
    run.kill()
    assert [is_running(one.pid) for one in programs] == [True, True]
    next_run = [sys.executable, "-m", "pytest", "--collect-only", held_program.__file__]
    subprocess.run(next_run, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    assert not any(is_running(one.pid) for one in programs)
    assert is_running(neighbour.pid), "a run that is alive has lost a process"
