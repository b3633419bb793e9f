"""The shared set-up of compose.yaml, started as the file says, until a run was made on it."""

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.services.composed import COMPOSE, NAMESPACES, PROGRAM, STEPS, rehearse
from tests.services.needs import leave_out, need
from tests.services.patience import patience_s
from tests.services.postgres_server import binaries
from tests.support.guard import current_run
from tests.support.repository import ROOT


@pytest.mark.long  # PostgreSQL, a server and a worker are started for it: most of a minute
def test_it_trains_and_benchmarks(tmp_path: Path) -> None:
    password = f"ana:{secrets.token_hex(12)}"
    if _compose_runs():
        _as_containers(password)
    else:
        _as_processes(tmp_path, password)


def _compose_runs() -> bool:
    """Whether Docker's daemon answers, and knows Compose."""
    for command in (["docker", "info"], ["docker", "compose", "version"]):
        try:
            done = subprocess.run(command, capture_output=True, timeout=patience_s())
        except FileNotFoundError:
            return False
        if done.returncode:
            return False
    return True


def _as_containers(password: str) -> None:
    """With the image built from the Dockerfile; nothing of it stays."""
    environment = {
        **os.environ,
        "POSTGRES_PASSWORD": secrets.token_hex(12),
        "PREFECT_SERVER_API_AUTH_STRING": password,
        "PRECIS_ADDRESS": "127.0.0.1",
    }
    compose = ["docker", "compose", "-f", str(COMPOSE), "-p", f"precis-{current_run()}"]
    try:
        _run([*compose, "up", "--build", "--detach", "--wait"], environment)
        rehearse(password)
        in_worker = [*compose, "exec", "-T", "worker", "precis"]
        _run([*in_worker, "doctor"], environment)
        _assert_kept(json.loads(_run([*in_worker, "runs", "list", "--json"], environment)))
    finally:
        _run([*compose, "down", "--volumes", "--timeout", "30"], environment)


def _run(command: list[str], environment: Mapping[str, str]) -> str:
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def _assert_kept(runs: list[dict[str, Any]]) -> None:
    """The store of the set-up has the run, and it alone."""
    assert [(run["model"], run["step"]) for run in runs] == [("composed", STEPS)]


def _as_processes(folder: Path, password: str) -> None:
    if os.geteuid() != 0:
        leave_out("without Docker, only root can start the set-up as compose.yaml describes it")
    for package, program in (("util-linux", "unshare"), ("iproute2", "ip"), ("mount", "mount")):
        need(package, program)
    binaries()  # leaves the test out, which what is started below can't
    log = folder / "log"
    with log.open("w") as output:
        done = subprocess.run(
            [
                *(*NAMESPACES, sys.executable, "-m", PROGRAM),
                *(str(folder), password),
            ],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=output,
            text=True,
        )
    assert done.returncode == 0, log.read_text()[-5000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["order"] == ["database", "server", "worker"]
    _assert_kept(found["runs"])
