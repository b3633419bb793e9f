"""A test run that is killed leaves nothing running."""

import os
import subprocess
import sys
from pathlib import Path

import psutil

from precis.processes.child import is_running
from tests.services.conftest import ROOT
from tests.services.patience import wait_until
from tests.support import held_program
from tests.support.guard import carriers, temporary_folders, writers_in


def test_what_a_killed_run_has_started_ends_with_it(tmp_path: Path) -> None:
    """And nothing else: this process is of a run that is alive."""
    ready, output = tmp_path / "ready", tmp_path / "output"
    # With a process of xdist's, as the Makefile's runs have.
    command = (sys.executable, "-m", "pytest", "-n", "1", "-p", "no:cacheprovider")
    with output.open("w") as file:
        process = psutil.Popen(
            (*command, f"{held_program.__file__}::test_programs"),
            cwd=ROOT,
            env={**os.environ, held_program.READY: str(ready)},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        )

    def is_ready() -> bool:
        assert process.poll() is None, output.read_text()
        return ready.exists()

    try:
        wait_until(is_ready, "what the run holds open", told=output.read_text)
        started = started_by(ready.read_text()) | set(process.children(recursive=True))
    finally:
        process.kill()
        process.wait()
    assert sum(one.name() == "sleep" for one in started) == 2

    def alive() -> list[psutil.Process]:
        return [one for one in started if is_running(one.pid)]

    wait_until(lambda: not alive(), "the end of what it had started", told=alive)


def started_by(run: str) -> set[psutil.Process]:
    """What carries a run's id, or writes into its folders."""
    found = set(carriers(run))
    for folder in temporary_folders(run):
        found.update(writers_in(folder))
    return found
