"""Every command that needs no Prefect server, run with PREFECT_API_URL set.

`precis up` tells everybody to set it. Nothing listens at the address here, so that a command which
asks there fails. The others are run in `tests/services/test_commands.py`.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from precis.commands.main import app
from precis.processes.child import free_port
from precis.store import FolderStore
from tests.services.patience import patience_s
from tests.support.commands import WITH_PREFECT, all_commands
from tests.support.examples import EXAMPLES
from tests.support.runs import train_policy

PRECIS = str(Path(sys.executable).with_name("precis"))

ALONE = {
    "summarize": ("{text} --model first --store {store}", 0, "The door is green."),
    "judge cache": ("", 0, "There is no cache"),
    "judge audit": ("{folder}/missing.parquet", 1, "missing.parquet"),
    "model export": ("first --to {folder}/exported --store {store}", 0, "exported"),
    "model serve": (
        "first --store {store}",
        0,
        "first@2 --run --host 127.0.0.1 --port 8000 --store",
    ),
    "model push": ("first --repo owner/name --store {store}", 1, "HF_TOKEN"),
    "play": (f"{EXAMPLES / 'tic_tac_toe.py'} --store {{store}}", 1, "on these scenarios"),
    "questions make": (
        "{folder}/empty --out {folder}/made.parquet --url http://127.0.0.1:{port}/v1 --model m",
        1,
        "empty",
    ),
    "runs list": ("--store {store}", 0, "second"),
    "runs show": ("first --verify --store {store}", 0, "whole"),
    "runs export": ("first --to {folder}/records --store {store}", 0, "metrics.parquet"),
    "runs restart": ("first --step 1 --yes --store {store}", 0, "is at step 1 again"),
    "runs repair": ("first --store {store}", 1, "is intact"),
    "runs compare": ("first second --store {store}", 0, "second"),
    "runs rollouts": ("first --store {store}", 1, "holds no rollouts of 'first'"),
    "runs open": ("first --store {store}", 1, "holds no report"),
}
"""The arguments of each, its exit status, and words that it says."""


@pytest.fixture
def places(tmp_path: Path) -> dict[str, object]:
    store = FolderStore(tmp_path / "store")
    for name in ("first", "second"):
        train_policy(store, name, tmp_path / name)
    (tmp_path / "empty").mkdir()
    text = tmp_path / "text.txt"
    text.write_text("The door is green. " * 5)
    return {"store": store.url, "folder": tmp_path, "text": text, "port": free_port()}


def test_every_command_is_run_with_the_variable_set() -> None:
    assert sorted(all_commands()) == sorted([*ALONE, *WITH_PREFECT])


@pytest.mark.parametrize("command", ALONE)
def test_a_command_that_needs_no_server_does_not_ask_the_one_that_is_named(
    command: str, places: dict[str, object], tmp_path: Path
) -> None:
    arguments, code, says = ALONE[command]
    given = [one.format(**places) for one in arguments.split()]
    environment = {
        "PREFECT_API_URL": f"http://127.0.0.1:{places['port']}/api",
        "PRECIS_HOME": str(tmp_path / "home"),
        "HF_TOKEN": "",
        "COLUMNS": "200",
    }
    done = CliRunner().invoke(app, [*command.split(), *given], env=environment)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert done.exit_code == code, done.output
    assert says in done.output


def test_a_name_that_no_key_has_is_refused_before_the_key_is_asked_for() -> None:
    reading, writing = os.pipe()  # whoever reads it waits for ever
    try:
        done = subprocess.run(
            [PRECIS, "secret", "NO_KEY"],
            stdin=reading,
            capture_output=True,
            text=True,
            timeout=patience_s(),
        )
    finally:
        os.close(reading)
        os.close(writing)
    assert done.returncode == 1
    assert "No key is called NO_KEY; there are " in done.stderr
