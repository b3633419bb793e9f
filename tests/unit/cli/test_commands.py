"""What is typed to a command is checked before anything is asked for."""

import os
import subprocess
import sys
from pathlib import Path

from tests.services.patience import patience_s

PRECIS = str(Path(sys.executable).with_name("precis"))


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
