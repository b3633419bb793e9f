"""The files of the set-up for a team are what their tools take, and hold no password."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect.events import AutomationCore

from cli import automations
from tests.support.repository import ROOT

DEPLOYMENTS = ROOT / "deployments"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOYMENTS / "compose.yaml").read_text())
UNITS = sorted((DEPLOYMENTS / "systemd").glob("*.service"))


def test_no_password_has_a_default_and_compose_refuses_without_one() -> None:
    variables = {
        key: value
        for service in COMPOSE["services"].values()
        for key, value in (service.get("environment") or {}).items()
        if "PASSWORD" in key or "AUTH" in key
    }
    assert set(variables) == {
        "POSTGRES_PASSWORD",
        "PREFECT_SERVER_API_AUTH_STRING",
        "PREFECT_API_AUTH_STRING",
    }
    for value in variables.values():
        assert ":?" in value, value


def test_what_is_not_encrypted_is_reached_from_this_machine_alone() -> None:
    published = {name: one["ports"] for name, one in COMPOSE["services"].items() if "ports" in one}
    assert published == {"server": ["${PRECIS_ADDRESS:-127.0.0.1}:4200:4200"]}


def test_a_worker_that_is_stopped_has_time_to_cancel_its_runs() -> None:
    """Each may clean up for 90 s, and is told by the worker: no signal goes to it directly."""
    unit = (DEPLOYMENTS / "systemd" / "precis-worker.service").read_text().splitlines()
    assert {"KillMode=mixed", "TimeoutStopSec=120"} <= set(unit)
    assert COMPOSE["services"]["worker"]["stop_grace_period"] == "2m"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    """With this checkout in the place of /opt/precis, whose programs systemd looks for."""
    for unit in UNITS:
        text = unit.read_text().replace("/opt/precis/.venv/bin", str(Path(sys.executable).parent))
        text = text.replace("/opt/precis", str(ROOT)).replace("User=precis", "User=root")
        (tmp_path / unit.name).write_text(text)
    copies = [str(path) for path in sorted(tmp_path.iterdir())]
    done = subprocess.run(["systemd-analyze", "verify", *copies], capture_output=True, text=True)
    complaints = [line for line in done.stderr.splitlines() if "precis-" in line]
    assert done.returncode == 0 and not complaints, done.stderr


@pytest.mark.parametrize("path", sorted(automations.FOLDER.glob("*.yaml")), ids=lambda p: p.stem)
def test_an_automation_is_what_prefect_takes(path: Path) -> None:
    raw = yaml.safe_load(path.read_text())
    someone = "00000000-0000-4000-8000-000000000001"
    for action in raw["actions"]:
        if action["type"] == "send-notification":
            action["block_document_id"] = someone
        if action.pop("deployment", None):
            action |= {"source": "selected", "deployment_id": someone}
    assert AutomationCore.model_validate(raw).name.startswith("precis: ")
