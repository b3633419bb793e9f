"""A test run that is killed leaves nothing running."""

import subprocess
import sys
from contextlib import suppress

import psutil

from precis.processes.child import is_running
from tests.services.conftest import ROOT
from tests.services.patience import wait_until
from tests.support.guard import carriers, temporary_folders, writers_in

RUN = """
import os, subprocess, time
from tests.support.guard import current_run, guarded, shared_folder

with guarded():
    # In a session of its own, as a daemon is.
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    # A step of Slurm's has left its parent, and carries no id: it only writes to a run's folder.
    command = f"sleep 600 > {shared_folder('held')}/log &"
    subprocess.run(["sh", "-c", command], env={"PATH": os.defpath}, check=True)
    # SkyPilot's server ends by SIGTERM, but not its executors, which carry no id either.
    subprocess.Popen(["sh", "-c", "(trap '' TERM; exec env -i sleep 600) & wait"])
    print(current_run(), flush=True)
    time.sleep(600)
"""
"""A run that holds three programs open: the least that a test starts."""


def test_what_a_killed_run_has_started_ends_with_it() -> None:
    """And nothing else: this process is of a run that is alive."""
    process = psutil.Popen([sys.executable, "-c", RUN], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    started: set[psutil.Process] = set()

    def all_run() -> bool:
        started.update(carriers(run), process.children(recursive=True))
        for folder in temporary_folders(run):
            started.update(writers_in(folder))
        names = []
        for one in started:
            with suppress(psutil.NoSuchProcess):
                names.append(one.name())
        return names.count("sleep") == 3

    try:
        with process.stdout as told:
            run = told.readline().strip()
        # The shell is gone before its child has opened the file, or has become a sleep.
        wait_until(all_run, "all sleeps", told=lambda: started)
    finally:
        process.kill()
        process.wait()

    def alive() -> list[psutil.Process]:
        return [one for one in started if is_running(one.pid)]

    wait_until(lambda: not alive(), "the end of what it had started", told=alive)
