"""A test run that is killed leaves nothing running."""

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil

from precis.processes.child import is_running
from tests.services.conftest import ROOT
from tests.services.patience import wait_until
from tests.support.guard import (
    carriers,
    current_run,
    shared_folder,
    temporary_folders,
    writers_in,
)

READY = "PRECIS_TEST_READY"
"""The variable that names a file for the run's id, written once all is up."""
HELD_S = 600


def hold_programs() -> None:
    """Hold two programs open until the run is killed: the least that a test starts. pytest collects
    this where it is told to."""
    # In a session of its own, as a daemon is.
    subprocess.Popen(["sleep", str(HELD_S)], start_new_session=True)
    # A step of Slurm's has left its parent, and carries no id: it only writes to a run's folder.
    command = f"sleep {HELD_S} > {shared_folder('held')}/log &"
    subprocess.run(["sh", "-c", command], env={"PATH": os.defpath}, check=True)
    ready = Path(os.environ[READY])
    ready.with_suffix(".new").write_text(current_run())
    ready.with_suffix(".new").rename(ready)
    time.sleep(HELD_S)


def test_what_a_killed_run_has_started_ends_with_it(tmp_path: Path) -> None:
    """And nothing else: this process is of a run that is alive."""
    ready, output = tmp_path / "ready", tmp_path / "output"
    # With a process of xdist's, as the Makefile's runs have.
    command = (sys.executable, "-m", "pytest", "-n", "1", "-p", "no:cacheprovider")
    collected = ("-o", "python_functions=hold_programs", __file__)
    with output.open("w") as file:
        process = psutil.Popen(
            (*command, *collected),
            cwd=ROOT,
            env={**os.environ, READY: str(ready)},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
        )

    def is_ready() -> bool:
        assert process.poll() is None, output.read_text()
        return ready.exists()

    try:
        wait_until(is_ready, "what the run holds open", told=output.read_text)
        run = ready.read_text()
        started = set(carriers(run)) | set(process.children(recursive=True))
        for folder in temporary_folders(run):
            started.update(writers_in(folder))
    finally:
        process.kill()
        process.wait()
    assert sum(one.name() == "sleep" for one in started) == 2

    def alive() -> list[psutil.Process]:
        return [one for one in started if is_running(one.pid)]

    wait_until(lambda: not alive(), "the end of what it had started", told=alive)
