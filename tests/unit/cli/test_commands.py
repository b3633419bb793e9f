"""What is typed to a command is checked before anything is asked for."""

import os
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from precis.commands.main import app
from tests.services.patience import patience_s

PRECIS = str(Path(sys.executable).with_name("precis"))


def test_a_key_that_cannot_be_sent_is_not_kept() -> None:
    done = CliRunner().invoke(app, ["secret", "OPENROUTER_API_KEY"], input="sk-or-v1-4f…\n")
    assert done.exit_code == 1
    assert "OPENROUTER_API_KEY holds characters that no key has" in done.output
    assert "sk-or" not in done.output


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
